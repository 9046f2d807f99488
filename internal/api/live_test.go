package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// tab is a viewer's page: what it shows of each topic.
type tab struct {
	t      testing.TB
	topics []string

	mu     sync.Mutex
	shows  map[string]operator.Answer
	errors map[string]*operator.TopicError
	seqs   map[string]uint64
	wholes map[string]int
	beat   operator.Beat
	id     string
	news   chan struct{} // has room for one
}

func newTab(t testing.TB, topics ...string) *tab {
	return &tab{t: t, topics: topics, shows: map[string]operator.Answer{}, errors: map[string]*operator.TopicError{}, seqs: map[string]uint64{}, wholes: map[string]int{}, news: make(chan struct{}, 1)}
}

// follow opens a stream until stop, and keeps what the tab shows; stop returns why it ended.
func (b *tab) follow(c *operator.Client) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Live(ctx, b.topics, b.take) }()
	return func() error { cancel(); return <-ended }
}

func (b *tab) take(e operator.LiveEvent) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var f operator.Frame
	var err error
	switch e.Type {
	case operator.EventStream:
		var s operator.LiveStream
		err = json.Unmarshal(e.Data, &s)
		b.id = s.ID
	case operator.EventBeat:
		err = json.Unmarshal(e.Data, &b.beat)
	case operator.EventTopic:
		if err = json.Unmarshal(e.Data, &f); err != nil {
			break
		}
		if f.Seq < b.seqs[f.Topic] {
			b.t.Errorf("%s goes back from %d to %d", f.Topic, b.seqs[f.Topic], f.Seq)
		}
		if f.Whole {
			b.wholes[f.Topic]++
		}
		b.errors[f.Topic], b.seqs[f.Topic] = f.Error, f.Seq
		b.shows[f.Topic], err = f.Apply(b.shows[f.Topic])
	default:
		err = fmt.Errorf("event %q", e.Type)
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
	return err
}

// until waits until the tab shows something.
func (b *tab) until(w *world, what string, shown func() bool) {
	b.t.Helper()
	ctx := w.ctx()
	for {
		b.mu.Lock()
		ok := shown()
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-b.news:
		case <-ctx.Done():
			b.t.Fatalf("waited in vain for a tab to show %s: %s, %v", what, b.shows, b.errors)
		}
	}
}

// childClient is an operator's client of a server in a process of its own.
func (w *world) childClient() *operator.Client {
	w.t.Helper()
	secret := testkit.Value(os.ReadFile(filepath.Join(w.dir, "server", "admin.token")))(w.t)
	c := testkit.Value(operator.NewClient(operator.Options{URL: w.child.url, Token: strings.TrimSpace(string(secret)), ServerCA: w.child.ca}))(w.t)
	w.t.Cleanup(c.Close)
	return c
}

// route is what a GET route answers, as a topic has it.
func (w *world) route(topic string) operator.Answer {
	w.t.Helper()
	secret := testkit.Value(os.ReadFile(filepath.Join(w.dir, "server", "admin.token")))(w.t)
	req := testkit.Value(http.NewRequestWithContext(w.ctx(), "GET", w.url()+operator.Prefix+topic, nil))(w.t)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	client := newAgentLike(w)
	defer client.CloseIdleConnections()
	res := testkit.Value(client.Do(req))(w.t)
	defer res.Body.Close()
	raw := testkit.Value(io.ReadAll(res.Body))(w.t)
	if raw[0] == '[' {
		raw = fmt.Appendf(nil, `{"items":%s}`, raw)
	}
	var a operator.Answer
	testkit.Must(w.t, json.Unmarshal(raw, &a))
	return a
}

// same fails unless a tab shows of each topic what its route answers while the log rests.
func (b *tab) same(w *world) {
	b.t.Helper()
	for range 20 {
		before := testkit.Value(w.op.Status(w.ctx()))(b.t).Seq
		want := map[string]operator.Answer{}
		for _, topic := range b.topics {
			want[topic] = w.route(topic)
		}
		b.until(w, "the newest record", func() bool { return b.beat.Seq >= before })
		if testkit.Value(w.op.Status(w.ctx()))(b.t).Seq != before {
			continue // the log moved meanwhile
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, topic := range b.topics {
			got := b.shows[topic]
			for _, key := range []string{"now", "lastSeen", "expiries"} { // they move without the log: the disk fills
				delete(got, key)
				delete(want[topic], key)
			}
			if diff := cmp.Diff(fmt.Sprintf("%s", want[topic]), fmt.Sprintf("%s", got)); diff != "" {
				b.t.Errorf("%s is shown otherwise than the route answers (-route +tab):\n%s", topic, diff)
			}
		}
		return
	}
	b.t.Error("the log never rested")
}

// TestTabsOutliveTheServer: two tabs of one fleet show what its routes answer, and so they do again after the server was
// killed under them in the middle of a rollout.
func TestTabsOutliveTheServer(t *testing.T) {
	t.Parallel()
	const hosts = 6
	w := newKeys(t)
	testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
	w.spawn()
	defer func() { w.child.kill() }()
	w.op = w.childClient()
	w.release("r1", plan{hosts: hosts, content: "one"})
	agents := w.agents(hosts)
	one, two := newTab(t, "/fleet", "/status", "/rollouts"), newTab(t, "/fleet", "/rollouts/stable@r2", "/hosts/h-0001", "/hosts", "/host-list?sort=state&limit=2")
	stopOne, stopTwo := one.follow(w.op), two.follow(w.op)
	stop := runAgents(t, agents...)
	one.until(w, "a fleet that has converged", func() bool { return string(one.shows["/fleet"]["cells"]) == `"cccccc"` })
	two.until(w, "that there is no such rollout", func() bool { e := two.errors["/rollouts/stable@r2"]; return e != nil && e.Status == 404 })
	one.same(w)

	stop() // so that it does not end before it was seen
	w.release("r2", plan{hosts: hosts, content: "two", waves: "    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]\n"})
	two.until(w, "that the canary was offered the release", func() bool { return string(two.shows["/fleet"]["cells"]) == `"qwwwww"` })
	w.child.kill()
	if stopOne() == nil || stopTwo() == nil {
		t.Error("a stream ended well when its server was killed")
	}
	wholes := two.wholes["/fleet"]
	w.spawn()
	w.op = w.childClient()
	stopOne, stopTwo = one.follow(w.op), two.follow(w.op)
	for _, a := range agents {
		a.connect()
	}
	stop = runAgents(t, agents...)
	defer stop()
	two.until(w, "the rest of the fleet to converge", func() bool {
		return two.wholes["/fleet"] > wholes && string(two.shows["/fleet"]["cells"]) == `"cccccc"` && strings.Contains(string(two.shows["/rollouts/stable@r2"]["status"]), "done")
	})
	one.same(w)
	two.topics = slices.DeleteFunc(two.topics, func(s string) bool { return s == "/hosts/h-0001" || s == "/hosts" })
	testkit.Must(t, w.op.SetTopics(w.ctx(), two.id, two.topics))
	two.same(w)
	for _, end := range []func() error{stopOne, stopTwo} {
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("a stream ended with %v", err)
		}
	}
}

// TestStreamOfTopicsRefuses what it has to: more topics than it takes, what is no topic, what a role may not see, other
// people's streams, and one stream too many.
func TestStreamOfTopicsRefuses(t *testing.T) {
	w := newWorld(t)
	viewer := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "viewer", Role: operator.Viewer}))(t)
	c := w.client(viewer.Secret)
	is := func(what string, err error, status int) {
		t.Helper()
		if refused, _ := errors.AsType[*operator.Error](err); refused == nil || refused.Status != status {
			t.Errorf("%s: %v, want %d", what, err, status)
		}
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint("/hosts/h", i)
	}
	is("17 topics", c.Live(w.ctx(), many, func(operator.LiveEvent) error { return nil }), 422)
	code, _ := w.request(viewer.Secret, "GET", operator.RouteLive+"?about=x", "")
	if code != 422 {
		t.Errorf("another parameter: %d", code)
	}
	wrong := map[string]int{"/tokens": 403, "/none": 404, "/metrics": 404, "/events/stream?tail=true": 404, "/stream": 404, "/me": 404, "fleet": 422, "/../operator/fleet": 422,
		"/fleet?%zz": 422, "/fleet?x=y": 422, "/hosts/none": 404}
	b := newTab(t, "/fleet")
	for topic := range wrong {
		b.topics = append(b.topics, topic)
	}
	stop := b.follow(c)
	b.until(w, "why each is refused", func() bool { return len(b.errors) == len(b.topics) })
	for topic, status := range wrong {
		if e := b.errors[topic]; e == nil || e.Status != status || e.Detail == "" {
			t.Errorf("%s: %+v, want %d", topic, e, status)
		}
	}
	if b.errors["/fleet"] != nil || b.shows["/fleet"]["cells"] == nil {
		t.Errorf("the fleet is %v", b.shows)
	}
	is("somebody else's stream", w.op.SetTopics(w.ctx(), b.id, nil), 404)
	is("17 topics of a stream", c.SetTopics(w.ctx(), b.id, many), 422)
	testkit.Must(t, c.SetTopics(w.ctx(), b.id, []string{"/rollouts"}))
	b.until(w, "another topic", func() bool { return string(b.shows["/rollouts"]["items"]) == "[]" })
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Eventually(t, "the server to hear that the stream ended", func() bool { return status(c.SetTopics(w.ctx(), b.id, nil)) == 404 })
}

// TestStreamsAreOpenForManyAndEndWithTheServer: 512 viewers look, one more is told to come later, one that does not read keeps
// nobody waiting, and all streams end with the server.
func TestStreamsAreOpenForManyAndEndWithTheServer(t *testing.T) {
	const most, each = 512, 32
	w := newWorld(t)
	var stops []func() error
	var tabs []*tab
	secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)))
	var c *operator.Client
	for i := range most - 1 {
		if i%each == 0 {
			c = w.client(secret)
		}
		b := newTab(t, "/fleet", "/status")
		tabs, stops = append(tabs, b), append(stops, b.follow(c))
	}
	silent := newAgentLike(w)
	defer silent.CloseIdleConnections()
	req := testkit.Value(http.NewRequestWithContext(w.ctx(), "GET", w.server.OperatorURL()+operator.RouteLive+"?topic=/events&topic=/status", nil))(t)
	req.Header.Set("Authorization", "Bearer "+secret)
	res := testkit.Value(silent.Do(req))(t)
	defer res.Body.Close()
	for _, b := range tabs {
		b.until(w, "the fleet", func() bool { return b.shows["/fleet"] != nil && b.shows["/status"] != nil })
	}
	var refused *operator.Error
	if err := w.op.Live(w.ctx(), nil, func(operator.LiveEvent) error { return nil }); !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests {
		t.Errorf("one stream too many: %v", err)
	}
	w.release("r1", plan{hosts: 2, content: "one"})
	seq := testkit.Value(w.op.Status(w.ctx()))(t).Seq
	for _, b := range tabs {
		b.until(w, "the release", func() bool { return b.beat.Seq >= seq && string(b.shows["/fleet"]["cells"]) == `"uu"` })
	}
	w.halt()
	for _, stop := range stops {
		if err := stop(); err == nil {
			t.Error("a stream ended well with its server")
		}
	}
}
