package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestRows: what a row leaves out or misspells shows here. A body's member with the
// name of a kind counts in what an event is about, and a line of the server's log shows
// members that the body has.
func TestRows(t *testing.T) {
	for _, name := range Types() {
		typ := types[name].body
		if n := NoticeOf(name); n != nil {
			for key := range strings.FieldsSeq(n.Keys) {
				if !slices.ContainsFunc(reflect.VisibleFields(typ), func(f reflect.StructField) bool {
					tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
					return tag == key
				}) {
					t.Errorf("the log line of %s shows %q, which it does not have", name, key)
				}
			}
		}
		for i := range typ.NumField() {
			tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !slices.Contains(Kinds(), tag) || typ.Field(i).Type.Kind() != reflect.String {
				continue
			}
			e := Entry{Type: name, Body: fmt.Appendf(nil, `{%q:"this"}`, tag)}
			if got := About(&e); !slices.Equal(got, []Subject{{Kind: tag, Name: "this"}}) {
				t.Errorf("%s with %s is about %v", name, e.Body, got)
			}
		}
	}
}

// TestKindsAreApart: no driver can call its objects what the log has a name for, and a kind survives
// the log.
func TestKindsAreApart(t *testing.T) {
	for _, kind := range Kinds() {
		if nodeconfig.IsOwn(kind) == (nodeconfig.CheckKind(kind) == nil) {
			t.Errorf("%s can be a kind of a driver, and is something else in the log", kind)
		}
	}
	for _, want := range append(nodeconfig.KindNames(), "camera", "ingress", "kind") {
		if kind, name := Sync("gw-1", want, "a", want).Object(); kind != want || name != "a" {
			t.Errorf("%s a became %s %s", want, kind, name)
		}
	}
	if s, err := ParseSubject("camera/a"); err != nil || s != (Subject{Kind: "camera", Name: "a"}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAbout(t *testing.T) {
	host := HostSubject("web-1")
	for _, c := range []struct {
		subject Subject
		ev      Event
		want    string
	}{
		{host, Granted{Rollout: "stable@v2", Manifest: "sha256:m", Target: "sha256:t"}, "host/web-1 rollout/stable@v2 manifest/sha256:m bundle/sha256:t"},
		{host, GrantEnded{Grant: "g1", Rollout: "stable@v2"}, "host/web-1 rollout/stable@v2"},
		{Subject{}, ReleaseAccepted{Ref: "v2", Channels: []ChannelRelease{{Channel: "a"}, {Channel: "b"}}}, "release/v2 channel/a channel/b"},
		{Subject{}, RolloutDeferred{Channel: "a", TargetRef: "a@v2"}, "channel/a rollout/a@v2"},
		{host, HostReturned{}, "host/web-1"},
		{Subject{}, PushSucceeded{SyncOf: Sync("gw-1", "flow", "a", "flow")}, "node/gw-1 flow/a"},
		{Subject{}, DriftMismatched{SyncOf: Sync("gw-1", "camera", "a", "camera")}, "node/gw-1 camera/a"},
		{host, HostDegraded{Bundle: true}, "host/web-1"},
	} {
		body := testkit.Value(json.Marshal(c.ev))(t)
		var got []string
		for _, s := range About(&Entry{Type: c.ev.EventType(), Subject: c.subject, Body: body}) {
			got = append(got, s.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s is about %v; want %s", c.ev.EventType(), got, c.want)
		}
	}
}

// TestAboutOfAnyBody: whatever a body holds, an entry is about its subject, and about
// nothing that cannot be looked up.
func TestAboutOfAnyBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just(`1`), rapid.Just(`null`), rapid.Just(`"\u0000é"`), rapid.Just(`""`), rapid.Just(`{"rollout":"x"}`),
			rapid.Map(rapid.IntRange(1, 300), func(n int) string { return `"` + strings.Repeat("x", n) + `"` }))
		e := Entry{Type: rapid.SampledFrom(Types()).Draw(t, "type"), Subject: HostSubject("h"), Body: fmt.Appendf(nil, `{"rollout":%s,"channel":%s,"digest":%s`,
			value.Draw(t, "rollout"), value.Draw(t, "channel"), value.Draw(t, "digest"))}
		if rapid.Bool().Draw(t, "whole") {
			e.Body = append(e.Body, '}')
		}
		got := About(&e)
		if len(got) == 0 || got[0] != e.Subject {
			t.Fatalf("%s is about %v", e.Body, got)
		}
		for _, s := range got {
			if again, err := ParseSubject(s.String()); err != nil || again != s || len(s.Name) > 255 {
				t.Fatalf("%s is about %v: %v", e.Body, s, err)
			}
		}
	})
}
