// One live connection to the service. It tells what it hears, that the service is silent, or that it does not know us
// any more, and connects again by itself. It knows nothing of pages.
const SILENCE = 5000, LOOK = 500, AGAIN = { lost: 1000, silent: 1000, refused: 2000, denied: 5000 };

export function openLine(after, tell) {
  let position = after, closed = false, attempt = null, heardAt = 0;
  const watch = setInterval(() => {
    if (attempt && performance.now() - heardAt > SILENCE) attempt.abort("silent");
  }, LOOK);

  async function connect() {
    attempt = new AbortController();
    heardAt = performance.now();
    try {
      const headers = { Accept: "text/event-stream" };
      const answer = await fetch(`/live?after=${position}`, { headers, signal: attempt.signal, cache: "no-store" });
      if (answer.ok) await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      return answer.ok ? "lost" : answer.status === 401 ? "denied" : "refused";
    } catch {
      return attempt.signal.aborted ? "silent" : "lost";
    } finally {
      attempt = null;
    }
  }

  async function read(reader) {
    for (let rest = "", part = await reader.read(); !part.done; part = await reader.read()) {
      heardAt = performance.now();
      const messages = (rest + part.value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) hear(Object.fromEntries(message.split("\n").map((line) => line.split(/: (.*)/s))));
    }
  }

  function hear({ event, id, data }) {
    if (id) position = Number(id);
    if (data) tell(event === "clock" ? { clock: JSON.parse(data) } : { change: JSON.parse(data), position });
  }

  (async () => {
    while (!closed) {
      const why = await connect();
      if (closed) break;
      tell({ lost: why });
      await new Promise((resolve) => { setTimeout(resolve, AGAIN[why]); });
    }
  })();

  return () => {
    closed = true;
    clearInterval(watch);
    attempt?.abort("closed");
  };
}
