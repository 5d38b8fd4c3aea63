// Scheduled Events with Go's standard library: ask, pick what hits this VM, get ready, approve, come back.
//
//	client HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

type event struct {
	EventId, EventType, EventStatus string // NotBefore is left alone: it is empty once an event has started
	Resources                       []string
}

var (
	base     = env("DUENOTICE_METADATA_ENDPOINT", "http://169.254.169.254")
	events   = base + "/metadata/scheduledevents?api-version=2020-07-01"
	state    = env("DUENOTICE_STATE_DIR", "/var/lib/duenotice-client") // must survive a reboot
	approved = map[string]bool{}
	isID     = regexp.MustCompile(`^[0-9A-Fa-f-]+$`) // it names a file
	client   = http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
)

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func ask(method, url, body string) ([]byte, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Metadata", "true") // on POST too
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != 200 {
		err = fmt.Errorf("HTTP %d", answer.StatusCode)
	}
	return content, err
}

func hook(words ...string) bool {
	command := exec.Command(os.Args[1], words...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run() == nil
}

func getReady(me string, e event) error {
	begun := filepath.Join(state, e.EventId)
	if done, _ := os.ReadFile(begun); string(done) != "prepared "+e.EventType {
		// First, so that it is undone even if we are killed on the way.
		if err := os.WriteFile(begun, []byte("begun "+e.EventType), 0o600); err != nil {
			return err
		}
		if !hook("prepare", e.EventId, e.EventType) {
			return nil
		}
		if err := os.WriteFile(begun, []byte("prepared "+e.EventType), 0o600); err != nil {
			return err
		}
	}
	// An approval is for all VMs of the event: only its leader does it, and only when every one of them is ready.
	if e.Resources[0] != me || e.EventStatus != "Scheduled" || approved[e.EventId] {
		return nil
	}
	if len(e.Resources) > 1 && !hook("others-ready", e.EventId, e.EventType) {
		return nil
	}
	_, err := ask("POST", events, `{"StartRequests":[{"EventId":"`+e.EventId+`"}]}`)
	approved[e.EventId] = err == nil
	return err
}

func round(me string) error {
	var document struct{ Events *[]event }
	content, err := ask("GET", events, "")
	if err == nil {
		err = json.Unmarshal(content, &document)
	}
	if err == nil && document.Events == nil {
		err = fmt.Errorf("not a document")
	}
	if err != nil { // an error, an empty answer or a sign-in page is not "no events": leave all as it is
		return err
	}
	mine := map[string]event{}
	for _, e := range *document.Events { // every event counts, not only the first
		for _, name := range e.Resources {
			if name == me && isID.MatchString(e.EventId) {
				mine[e.EventId] = e
			}
		}
	}
	files, _ := os.ReadDir(state)
	for _, file := range files { // an event that is over or cancelled just disappears
		begun := filepath.Join(state, file.Name())
		if _, there := mine[file.Name()]; there {
			continue
		}
		what, _ := os.ReadFile(begun)
		if hook("restore", file.Name(), strings.TrimPrefix(strings.TrimPrefix(string(what), "begun "), "prepared ")) {
			os.Remove(begun)
		}
	}
	for _, e := range mine { // one that fails must not keep the others waiting
		if err := getReady(me, e); err != nil {
			log.Println("asking again:", err)
		}
	}
	return nil
}

func main() {
	if err := os.MkdirAll(state, 0o700); err != nil {
		log.Fatal(err)
	}
	for me := ""; ; time.Sleep(time.Second) {
		if me == "" {
			name, err := ask("GET", base+"/metadata/instance/compute/name?api-version=2021-02-01&format=text", "")
			if err != nil || len(name) == 0 {
				log.Println("asking again:", err)
				continue
			}
			me = string(name)
		}
		if err := round(me); err != nil {
			log.Println("asking again:", err)
		}
	}
}
