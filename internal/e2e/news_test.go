package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// isNews reports whether a field of a dispatch is no part of a grant.
func isNews(path string) bool {
	return strings.HasPrefix(path, "news") || strings.HasPrefix(path, "streams")
}

// news has the agent send a heartbeat, and waits until what comes of it is there.
func (s *stage) news(what string, cond func() bool) {
	s.t.Helper()
	s.trials++
	s.tell(testkit.Value(json.Marshal(wire.Dispatch{News: uint64(1000 + s.trials)}))(s.t), what, cond)
}

// newsTell is news that has a lie told.
func (s *stage) newsTell(l *lie) {
	s.t.Helper()
	s.news(l.name+" told", func() bool { return s.liar.served(l) > 0 })
}

// placeholder is the id of a stream in a lie; each telling has an id of its own.
const placeholder = "stream-0"

func everyRequest(kind wire.StreamKind, resource string) wire.StreamRequest {
	return wire.StreamRequest{ID: placeholder, Kind: kind, Resource: resource, Actor: "eve",
		Args: wire.StreamArgs{Follow: true, Tail: 7, Since: 9, After: 4, Argv: []string{"sh", "-c", "id"}, Stdin: true, TTY: true, Rows: 2, Cols: 3, User: "root", WorkDir: "/",
			Spec: json.RawMessage(`{"image":"evil","security":{"privileged":true}}`)}}
}

// tellStreams gives the agent a dispatch and waits until every stream that it
// asks for readably is over. It returns their ids.
func (s *stage) tellStreams(doc []byte) []string {
	s.t.Helper()
	s.trials++
	id := fmt.Sprintf("told-%d", s.trials)
	doc = bytes.ReplaceAll(doc, []byte(strconv.Quote(placeholder)), []byte(strconv.Quote(id)))
	s.liar.say(doc)
	s.flush()
	var d wire.Dispatch
	if wire.Decode(doc, &d) != nil {
		return nil
	}
	var ids []string
	for _, r := range d.Streams {
		if fleet.CheckName(r.ID) != nil {
			continue
		}
		s.repeat(doc, "stream "+r.ID+" over", func() bool { return s.liar.ended(r.ID) != nil })
		ids = append(ids, r.ID)
	}
	return ids
}

// TestLyingNews lies about news and streams to a host whose signed declaration
// delegates nothing (P1): it opens what it is asked for once, to say no.
func TestLyingNews(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	total, before := 0, s.liar.heartbeats()
	for _, r := range []wire.StreamRequest{everyRequest(wire.StreamExec, "workspace/web"), everyRequest(wire.StreamLogs, "workspace/web"),
		everyRequest(wire.StreamOutput, "image/web"), everyRequest(wire.StreamPlan, "workspace/web"),
		everyRequest(wire.StreamOrphans, "host/web-1"), everyRequest(wire.StreamPrune, "host/web-1")} {
		model := testkit.Value(json.Marshal(wire.Dispatch{News: 5, Streams: []wire.StreamRequest{r}}))(t)
		others := map[string][]string{
			"streams[].kind":     {`"exec"`, `"logs"`, `"output"`, `"plan"`, `"orphans"`, `"prune"`, `"shell"`},
			"streams[].resource": {`"workspace/web"`, `"image/web"`, `"generation/current"`, `"file/etc"`, `"host/web-1"`, `"/"`, `""`},
		}
		for _, m := range mutants(t, model, r.Kind != wire.StreamExec, others) {
			if !isNews(m.path) || m.path == "streams[].id" && r.Kind != wire.StreamExec { // an id is opened once
				continue
			}
			s.reach("Dispatch", m.path)
			s.tellStreams(m.doc)
			total++
		}
	}
	total += s.manyStreams()
	s.unchanged("lies about news and streams")
	s.liar.refusedAll(t)
	if n := len(s.liar.opened("")); n < total/2 {
		t.Errorf("%d streams were opened over %d lies: too few to show anything", n, total)
	}
	if s.liar.heartbeats() == before {
		t.Error("news made the host send no heartbeat")
	}
	s.covers("Dispatch", wire.Dispatch{}, isNews)
	s.next()
	s.truth()
	t.Logf("%d lies, one at a time; %d streams opened, each to refuse it", total, len(s.liar.opened("")))
}

// manyStreams asks for more at once than a host opens, for one that is over, and
// for a command that is too long.
func (s *stage) manyStreams() int {
	s.t.Helper()
	var d wire.Dispatch
	for i := range 500 {
		r := everyRequest(wire.StreamExec, "workspace/web")
		r.ID = fmt.Sprintf("flood-%d", i)
		d.Streams = append(d.Streams, r)
	}
	s.tell(testkit.Value(json.Marshal(d))(s.t), "the flood", func() bool { return len(s.liar.opened("flood-")) > 0 })
	s.flush()
	testkit.Eventually(s.t, "the flood is over", func() bool {
		for _, id := range s.liar.opened("flood-") {
			if s.liar.ended(id) == nil {
				return false
			}
		}
		return true
	})
	if n := len(s.liar.opened("flood-")); n >= 500 || !s.diary.wrote("a stream ended", "streams are open already") {
		s.t.Errorf("a host opened %d of 500 streams at once", n)
	}
	first := s.liar.opened("flood-")[0]
	again := everyRequest(wire.StreamExec, "workspace/web")
	again.ID = first
	s.tellStreams(testkit.Value(json.Marshal(wire.Dispatch{Streams: []wire.StreamRequest{again, again}}))(s.t))
	long := everyRequest(wire.StreamExec, "workspace/web")
	long.Args.Argv = []string{"sh", "-c", strings.Repeat("a", 1<<20)}
	s.tellStreams(testkit.Value(json.Marshal(wire.Dispatch{Streams: []wire.StreamRequest{long}}))(s.t))
	return 3
}

// opened lists the streams whose id begins with prefix.
func (l *liar) opened(prefix string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, id := range l.order {
		if strings.HasPrefix(id, prefix) {
			out = append(out, id)
		}
	}
	return out
}

func (l *liar) heartbeats() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beats
}

// edited is a heartbeat's reply with other numbers in some fields.
func edited(t testing.TB, reply []byte, fields map[string]uint64) []byte {
	t.Helper()
	n := parseJSON(t, reply)
	for name, number := range fields {
		v := &node{raw: []byte(strconv.FormatUint(number, 10))}
		if at := n.at(name); at != nil {
			*at = *v
		} else {
			n.members = append(n.members, member{name, v})
		}
	}
	return n.bytes()
}

// tellLayer has the agent fetch its managed layer, which is the lie, and waits
// until it has done with it.
func (s *stage) tellLayer(l *lie) {
	s.t.Helper()
	s.trials++
	s.liar.mu.Lock()
	s.liar.hint = uint64(1_000_000 + s.trials)
	s.liar.mu.Unlock()
	s.liar.arm(l)
	s.newsTell(l)
	s.liar.arm(nil)
	s.liar.mu.Lock()
	s.liar.hint = 0
	n := s.liar.beats
	s.liar.mu.Unlock()
	s.flush() // news of its own
	// A heartbeat goes out after all that the one before it brought was done.
	testkit.Eventually(s.t, l.name+": the next heartbeat", func() bool { return s.liar.heartbeats() > n })
}

// layer is a lie that gives the managed layer in full.
func layer(name string, doc []byte, etag string) *lie {
	return &lie{name: "Managed " + name, route: wire.RouteManaged, tell: func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		write(w, http.StatusOK, doc)
	}}
}

func everyEntry() wire.Managed {
	return wire.Managed{Version: 3, Entries: []wire.ManagedEntry{
		{Kind: spec.KindVolume, Name: "data", Spec: json.RawMessage(`{"driver":"local","labels":{"a":"b"}}`), Version: 2, NotAfter: 4_000_000_000_000, StopFrom: 3_999_999_000_000, Actor: "eve", Owner: spec.SessionOwner("lab"), Envelope: json.RawMessage(`{"payload":"e30="}`)},
		{Kind: spec.KindWorkspace, Name: "web", Verb: "redeploy", Nonce: "n1", Requested: 3, Actor: "eve"},
	}, Retries: []wire.Retry{{Resource: "generation/current", Nonce: "r1"}}}
}

// aboutLayers makes the lies about the managed layer.
func (s *stage) aboutLayers(model wire.Managed, others map[string][]string) []*lie {
	s.t.Helper()
	doc := testkit.Value(json.Marshal(model))(s.t)
	var out []*lie
	for _, m := range mutants(s.t, doc, false, others) {
		path := m.path
		if strings.HasPrefix(path, "entries[].spec.") {
			path = "entries[].spec"
		}
		s.reach("Managed", path)
		out = append(out, layer(m.String(), m.doc, ""))
	}
	for _, etag := range []string{`"x"`, "x", `W/"x"`, strings.Repeat("e", 60_000), "\"\t\""} {
		out = append(out, layer("with ETag "+etag[:min(8, len(etag))], doc, etag))
	}
	huge := model
	for i := range 20_000 {
		huge.Entries = append(huge.Entries, wire.ManagedEntry{Kind: spec.KindVolume, Name: fmt.Sprintf("v%d", i), Spec: json.RawMessage(`{"driver":"evil"}`), Actor: "eve"})
	}
	out = append(out, layer("of 20 000 entries", testkit.Value(json.Marshal(huge))(s.t), ""))
	for _, l := range s.statuses(act{message: "Managed", route: wire.RouteManaged}) {
		tell := l.tell
		l.tell = func(w http.ResponseWriter, r *http.Request, _ *httptest.ResponseRecorder) {
			rec := httptest.NewRecorder()
			rec.Body.Write(doc)
			tell(w, r, rec)
		}
		out = append(out, l)
	}
	return append(out, &lie{name: "Managed not modified", route: wire.RouteManaged, tell: func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
		w.WriteHeader(http.StatusNotModified)
	}})
}

// TestLyingManagedLayer lies about the managed layer to a host whose signed
// declaration delegates nothing (P1): it takes nothing of it, and says so.
func TestLyingManagedLayer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	kinds := []string{}
	for _, k := range append([]string{"generation", "file", "exec", "pod"}, spec.Kinds...) {
		kinds = append(kinds, strconv.Quote(k))
	}
	list := s.aboutLayers(everyEntry(), map[string][]string{
		"entries[].kind": kinds, "entries[].name": {`"current"`, `"publish"`, `"web"`}, "entries[].verb": {`"start"`, `"stop"`, `"remove"`, `"build"`},
		"retries[].resource": {`"workspace/web"`, `"host/web-1"`, `""`},
	})
	for _, l := range list {
		s.tellLayer(l)
		s.unchanged(l.name)
	}
	s.inStep("the managed layer")
	s.liar.mu.Lock()
	told := s.liar.reported
	s.liar.mu.Unlock()
	refused := map[string]bool{}
	for _, r := range told {
		if r.Layer == event.LayerBundle || r.State == string(spec.Removed) && refused[r.Resource] { // by the lie after it
			continue
		}
		if r.State != string(spec.ErrorState) || !strings.HasPrefix(r.Message, "refused: ") {
			t.Errorf("the host reported %+v", r)
		}
		refused[r.Resource] = true
	}
	for _, want := range []string{"volume/data", "workspace/web", "generation/data", "exec/data", "volume/current"} {
		if !refused[want] {
			t.Errorf("%s was not refused in words", want)
		}
	}
	s.covers("Managed", wire.Managed{})
	s.next()
	s.truth()
	t.Logf("%d lies, one at a time; %d resources refused in %d reports", len(list), len(refused), len(told))
}

// steerFleet lets the server tune the host, and not disable it.
var steerFleet = strings.Replace(lieFleet, "web-1: {channel: stable, tags: [web], bundle: web}",
	"web-1: {channel: stable, tags: [web], bundle: web, managed: [volume], allow: [logs, settings]}", 1)

// TestLyingSettings lies about settings to a host that allows the server to tune
// it: what it takes is within the fixed bounds, all of it or nothing, and never
// what it does not allow.
func TestLyingSettings(t *testing.T) {
	t.Parallel()
	s := raise(t, steerFleet, nil)
	s.house()
	s.next()
	s.truth()
	total, changes := 0, 0
	for _, l := range s.lies(exchange{"HeartbeatReply", wire.RouteHeartbeat, wire.HeartbeatReply{Interval: 60_000, Acked: 7, Settings: everySetting()}, nil}) {
		if !strings.Contains(l.name, "settings") {
			continue
		}
		total++
		s.liar.arm(l)
		s.newsTell(l)
		s.liar.arm(nil)
		s.flush()
		s.inStep(l.name)
		s.unchanged(l.name)
		for _, taken := range s.diary.settings()[changes:] {
			changes++
			if err := taken.Check(); err != nil || taken.Enabled != nil && !*taken.Enabled {
				t.Fatalf("%s: the host took %+v: %v", l.name, taken, err)
			}
		}
	}
	asked := everySetting().Tuned()
	asked.Enabled = nil
	taken := s.diary.settings()
	if !containsSettings(taken, asked) {
		t.Errorf("the host never took what it allows: %+v of %+v", asked, taken)
	}
	for _, words := range []string{"does not allow the server disable", "expected 1 to 64", "expected 5s to 10m"} {
		if !s.diary.wrote("settings were applied in part", words) {
			t.Errorf("no refusal of settings says %q", words)
		}
	}
	t.Logf("%d lies, one at a time; settings changed %d times", total, len(taken))
}

func containsSettings(list []fleet.Settings, want fleet.Settings) bool {
	for _, s := range list {
		if reflect.DeepEqual(s, want) {
			return true
		}
	}
	return false
}
