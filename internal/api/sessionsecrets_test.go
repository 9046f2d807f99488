package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// TestSecretsOfASession: the answer of create alone shows a secret; its host is handed that, also by a server that was
// started again, until the session is to end; and nobody else is.
func TestSecretsOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: ", managed: [image, workspace], bounds: {owners: [session], images: [app]}"})
	a.append(event.HostFacts{CPUs: 8, Memory: 16 << 30, Arch: "amd64", Engine: "docker"})
	testkit.Must(t, a.send())
	now := time.Now().UTC().Truncate(time.Second)
	asked := operator.NewSession{Timeslot: session.Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
		Parts: []session.Part{{Name: "p", Pods: []session.Pod{{Name: "web", Secrets: []string{"one", "two"}, Workloads: []session.Workload{
			{Kind: "image", Name: "app", Spec: json.RawMessage(`{"ref":"app:1","pull":{"policy":"never"}}`)},
			{Kind: "workspace", Name: "web", Spec: json.RawMessage(`{"image":"app","env":[{"name":"ONE","secret":"one"},{"name":"TWO","secret":"two"}]}`)}}}}}}}
	made := testkit.Value(w.op.CreateSession(w.ctx(), "lab", asked))(t)
	if len(made.Secrets) != 2 || made.Secrets[0].Pod != "p/web" || made.Secrets[0].Name != "one" || made.Secrets[0].Value == made.Secrets[1].Value {
		t.Fatalf("%+v", made)
	}
	given := func() (values map[string]string) {
		t.Helper()
		var m wire.SessionSecrets
		if status := a.do("GET", wire.RouteSecrets, nil, &m); status != 200 {
			t.Fatalf("secrets: %d", status)
		}
		values = map[string]string{}
		for ref, v := range m.Secrets {
			values[ref[strings.LastIndex(ref, "/")+1:]] = v
		}
		return values
	}
	w.until("the host's layer has the workspace", func() bool { return len(a.layer().Entries) == 2 })
	expect := func(when string) {
		t.Helper()
		if got := given(); len(got) != 2 || got["one"] != made.Secrets[0].Value || got["two"] != made.Secrets[1].Value {
			t.Fatalf("%s the host is handed %d secrets, or others than were shown", when, len(got))
		}
	}
	expect("at first")
	w.halt()
	w.start()
	a.connect()
	expect("after a restart")

	again, err := w.op.CreateSession(w.ctx(), "lab", asked)
	if status(err) != http.StatusConflict || len(again.Secrets) != 0 {
		t.Errorf("created again: %v", err)
	}
	stranger := &agent{w: w}
	stranger.connect()
	if code, body, err := stranger.call(w.ctx(), "GET", wire.RouteSecrets, nil); err == nil && (code/100 == 2 || strings.Contains(string(body), made.Secrets[0].Value)) {
		t.Errorf("without a certificate: %d", code)
	}
	testkit.Must(t, w.op.StopSession(w.ctx(), "lab"))
	w.until("the host is handed nothing", func() bool { return len(given()) == 0 })
	w.secretsStayOut(made.Secrets[0].Value, made.Secrets[1].Value)
}
