package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// sample is a short log that names one manifest.
func sample(t *testing.T) *History {
	t.Helper()
	d := digest.Of([]byte("m"))
	h := &History{Manifests: map[digest.Digest]*rollout.Manifest{d: {Digest: d,
		Header: &fleet.Manifest{Channel: "stable", Ref: "v1", Waves: []fleet.Wave{{Name: "all", Hosts: 1}}, Budgets: []fleet.Budget{{Selector: "all", Max: 1}}},
		Leaves: []fleet.Leaf{{Host: "a<b>", Target: d}}, Members: [][]string{{"a<b>"}}}}}
	for i, ev := range []event.Event{
		event.HostEnrolled{Incarnation: 1, Token: "t"},
		event.ReleaseAccepted{Version: 1, Channels: []event.ChannelRelease{{Channel: "stable", Manifests: []fleet.ManifestRef{{Rollout: "stable@v1", Digest: d}}}}},
		event.RolloutOpened{Rollout: "stable@v1", Channel: "stable", Manifest: d},
	} {
		e := testkit.Value(event.NewEntry(5, event.HostSubject("a<b>"), ev))(t)
		h.Records = append(h.Records, event.Record{Entry: e, Seq: uint64(i) + 1, Term: 2})
	}
	return h
}

func written(t *testing.T, h *History) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewHistoryWriter(&b, h)
	if err == nil {
		err = w.Write(h.Records)
	}
	if err == nil {
		err = w.Close()
	}
	testkit.Must(t, err)
	return b.String()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	h := sample(t)
	text := written(t, h)
	got := testkit.Value(ReadHistory(strings.NewReader(text), nil))(t)
	if diff := cmp.Diff(h.Records, got.Records); diff != "" {
		t.Error(diff)
	}
	if len(got.Manifests) != 1 || strings.Count(text, `{"manifest"`) != 1 {
		t.Fatalf("%d manifests were read of\n%s", len(got.Manifests), text)
	}
	for d, m := range h.Manifests {
		g := got.Manifests[d]
		if fmt.Sprintf("%+v %+v %v", *m.Header, m.Leaves, m.Members) != fmt.Sprintf("%+v %+v %v", *g.Header, g.Leaves, g.Members) {
			t.Errorf("manifest %+v, want %+v", g, m)
		}
	}
}

// TestDamageIsNoticed cuts the stream after every line and takes each line out.
func TestDamageIsNoticed(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSuffix(written(t, sample(t)), "\n"), "\n")
	for i := range lines {
		if _, err := ReadHistory(strings.NewReader(strings.Join(lines[:i], "")), nil); err == nil {
			t.Errorf("a history of its first %d lines was taken", i)
		}
		without := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		if strings.HasPrefix(lines[i], `{"manifest"`) {
			continue // missed when it is asked for
		}
		if _, err := ReadHistory(strings.NewReader(without), nil); err == nil {
			t.Errorf("a history without line %d was taken", i+1)
		}
	}
	if _, err := ReadHistory(strings.NewReader(strings.Join(lines[:len(lines)-1], "")), nil); !errors.Is(err, ErrCut) {
		t.Errorf("a history without its end: %v", err)
	}
}
