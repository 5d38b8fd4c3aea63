// Scheduled Events with .NET: ask, pick what hits this VM, get ready, approve, come back.
//   Client HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;

[DataContract] class Event { // NotBefore is left alone: it is empty once an event has started
    [DataMember(IsRequired = true)] public string EventId, EventType, EventStatus;
    [DataMember(IsRequired = true)] public string[] Resources;
}
[DataContract] class Document { [DataMember(IsRequired = true)] public Event[] Events; }

static class Client {
    static readonly string Base = Env("DUENOTICE_METADATA_ENDPOINT", "http://169.254.169.254");
    static readonly string Events = Base + "/metadata/scheduledevents?api-version=2020-07-01";
    static readonly string State = Env("DUENOTICE_STATE_DIR", "/var/lib/duenotice-client"); // must survive the reboot
    static readonly HashSet<string> Approved = new HashSet<string>();
    static readonly HttpClient Http =
        new HttpClient(new HttpClientHandler { UseProxy = false, AllowAutoRedirect = false }) { Timeout = TimeSpan.FromSeconds(3) };
    static string hook;

    static string Env(string name, string otherwise) => Environment.GetEnvironmentVariable(name) ?? otherwise;

    static string Ask(HttpMethod method, string url, string body = null) {
        var request = new HttpRequestMessage(method, url);
        request.Headers.Add("Metadata", "true"); // on POST too
        if (body != null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        using (var answer = Http.SendAsync(request).GetAwaiter().GetResult()) {
            if ((int)answer.StatusCode != 200) throw new IOException("HTTP " + (int)answer.StatusCode);
            return answer.Content.ReadAsStringAsync().GetAwaiter().GetResult();
        }
    }

    static bool Hook(string verb, string id, string type) { // the id is checked below, the type here: no quoting needed
        if (!Regex.IsMatch(type, "^[A-Za-z]+$")) return false;
        var start = new ProcessStartInfo(hook, verb + " " + id + " " + type) { UseShellExecute = false };
        using (var process = Process.Start(start)) { process.WaitForExit(); return process.ExitCode == 0; }
    }

    static void GetReady(string me, Event e) {
        var begun = Path.Combine(State, e.EventId);
        if (!File.Exists(begun) || File.ReadAllText(begun) != "prepared " + e.EventType) {
            File.WriteAllText(begun, "begun " + e.EventType); // first, so that it is undone even if we are killed on the way
            if (!Hook("prepare", e.EventId, e.EventType)) return;
            File.WriteAllText(begun, "prepared " + e.EventType);
        }
        // An approval is for all VMs of the event: only its leader does it, and only when every one of them is ready.
        if (e.Resources[0] != me || e.EventStatus != "Scheduled" || Approved.Contains(e.EventId)) return;
        if (e.Resources.Length > 1 && !Hook("others-ready", e.EventId, e.EventType)) return;
        Ask(HttpMethod.Post, Events, "{\"StartRequests\":[{\"EventId\":\"" + e.EventId + "\"}]}");
        Approved.Add(e.EventId);
    }

    static void Round(string me) {
        var reader = new DataContractJsonSerializer(typeof(Document));
        var document = (Document)reader.ReadObject(new MemoryStream(Encoding.UTF8.GetBytes(Ask(HttpMethod.Get, Events))));
        // Every event counts, not only the first.
        var mine = document.Events.Where(e => e.Resources.Contains(me) && Regex.IsMatch(e.EventId, "^[0-9A-Fa-f-]+$")).ToList();
        foreach (var begun in Directory.GetFiles(State)) { // an event that is over or cancelled just disappears
            var id = Path.GetFileName(begun);
            if (mine.Any(e => e.EventId == id)) continue;
            if (Hook("restore", id, File.ReadAllText(begun).Split(' ')[1])) File.Delete(begun);
        }
        foreach (var e in mine) Attempt(() => GetReady(me, e)); // one that fails must not keep the others waiting
    }

    static void Attempt(Action work) { // an error, an empty answer or a sign-in page is not "no events": ask again
        try { work(); } catch (Exception error) { Console.Error.WriteLine("asking again: " + error.Message); }
    }

    static void Main(string[] arguments) {
        hook = arguments[0];
        Directory.CreateDirectory(State);
        for (string me = ""; ; Thread.Sleep(1000)) Attempt(() => {
            if (me == "") me = Ask(HttpMethod.Get, Base + "/metadata/instance/compute/name?api-version=2021-02-01&format=text");
            if (me != "") Round(me);
        });
    }
}
