package workspaces

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// host keeps outputs as a host does, and answers with them as a server does.
type host struct {
	*image.Store
	client *operator.Client
	refuse int // status instead of an answer
	breaks int // answers that break off after a line
	looks  int
}

func newHost(t *testing.T) *host {
	t.Helper()
	store := testkit.Value(image.OpenOutput(t.TempDir(), 0))(t)
	h := &host{Store: store}
	s := httptest.NewTLSServer(http.HandlerFunc(h.answer))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	h.client = testkit.Value(operator.NewClient(operator.Options{URL: s.URL, Token: "x", ServerCA: ca}))(t)
	t.Cleanup(func() { h.client.Close() })
	return h
}

func (h *host) answer(w http.ResponseWriter, r *http.Request) {
	h.looks++
	if h.refuse != 0 {
		http.Error(w, "not here", h.refuse)
		return
	}
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	out := wire.NewFrameWriter(w)
	to := frames{out, wire.FrameStdout}
	if h.breaks > 0 {
		h.breaks--
		lines, _ := h.Tail("app", after)
		_, _ = io.WriteString(to, lines[0].Text+"\n")
		_ = out.Exit(wire.Exit{Code: -1, Error: "the agent went away"})
		return
	}
	last, err := h.Copy(r.Context(), "app", image.Query{After: after, Follow: r.URL.Query().Get("follow") != ""},
		func() (bool, error) { return false, nil }, to, frames{out, wire.FrameStderr})
	exit := wire.Exit{Last: last}
	if err != nil {
		exit = wire.Exit{Code: -1, Error: err.Error()}
	}
	_ = out.Exit(exit)
}

type frames struct {
	out *wire.FrameWriter
	t   wire.FrameType
}

func (f frames) Write(b []byte) (int, error) { return len(b), f.out.WriteData(f.t, b) }

func (h *host) build(t *testing.T, text string) {
	t.Helper()
	w := testkit.Value(h.OpenLog("app"))(t)
	testkit.Value(io.WriteString(w, text))(t)
	testkit.Must(t, w.Close())
}

// following is a command that follows, and what it printed.
func (h *host) following(t *testing.T) (f *follower, out, errs *strings.Builder) {
	t.Helper()
	out, errs = new(strings.Builder), new(strings.Builder)
	e := command.New(command.Streams{Out: out, Err: errs, Getenv: func(string) string { return "" }})
	e.PrintsData(&cobra.Command{})
	f = testkit.Value(verbs{e}.follow(t.Context(), h.client, "lab", "app"))(t)
	return f, out, errs
}

var building = []watch.Outcome{{State: "Building"}}

// TestFollowShowsAllOfTheAttempt looks at every moment at which the host may say
// something of a build: each line of it is shown once, and none of what was there
// before.
func TestFollowShowsAllOfTheAttempt(t *testing.T) {
	for name, play := range map[string]func(h *host, look func()){
		"said to build before it writes": func(h *host, look func()) { look(); h.build(t, "Step 1\nfailed\n"); look() },
		"over before the first look":     func(h *host, look func()) { h.build(t, "Step 1\nfailed\n"); look() },
		"two attempts":                   func(h *host, look func()) { h.build(t, "Step 1\n"); look(); h.build(t, "failed\n"); look(); look() },
		"the stream breaks off":          func(h *host, look func()) { h.build(t, "Step 1\nfailed\n"); h.breaks = 1; look() },
	} {
		h := newHost(t)
		h.build(t, "of the build before\n")
		f, out, errs := h.following(t)
		play(h, func() { testkit.Must(t, f.show(t.Context(), building, nil)) })
		testkit.Must(t, f.end(t.Context()))
		if out.String() != "Step 1\nfailed\n" || errs.String() != "" {
			t.Errorf("%s: shown %q, told %q", name, out, errs)
		}
	}
}

// TestFollowSaysWhatItCannotShow checks that output which is not shown is never
// left out in silence.
func TestFollowSaysWhatItCannotShow(t *testing.T) {
	h := newHost(t)
	h.refuse = http.StatusForbidden
	f, _, errs := h.following(t)
	looks := h.looks
	testkit.Must(t, f.show(t.Context(), building, nil))
	testkit.Must(t, f.end(t.Context()))
	if strings.Count(errs.String(), "its output is not shown: ") != 1 || h.looks != looks {
		t.Errorf("a host that shows no logs was asked %d times more; told %q", h.looks-looks, errs)
	}

	h = newHost(t)
	f, out, errs := h.following(t)
	h.build(t, "Step 1\nStep 2\n")
	h.breaks = 1
	testkit.Must(t, f.poll(t.Context(), operator.OutputQuery{Follow: true}))
	h.refuse = http.StatusConflict // it is offline now
	testkit.Must(t, f.end(t.Context()))
	if out.String() != "Step 1\n" || !strings.Contains(errs.String(), "steady image output lab/app") {
		t.Errorf("a host that went away: shown %q, told %q", out, errs)
	}

	h = newHost(t)
	h.build(t, "kept\n")
	h.refuse = http.StatusConflict
	f, out, errs = h.following(t)
	h.refuse = 0
	testkit.Must(t, f.show(t.Context(), building, nil))
	if out.String() != "kept\n" || !strings.Contains(errs.String(), "all that it keeps is shown") {
		t.Errorf("a host that came back: shown %q, told %q", out, errs)
	}
}
