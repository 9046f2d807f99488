package plan

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// oneHost is a manifest of one wave with one host.
type oneHost struct{ header fleet.Manifest }

func (o oneHost) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	return &rollout.Manifest{Digest: d, Header: &o.header, Leaves: []fleet.Leaf{{Host: "h", Target: digest.Of([]byte("bundle"))}}}, nil
}

func record(t *testing.T, s *State, host string, now clock.Instant, events ...event.Event) {
	t.Helper()
	testkit.Value(Record(s, host, now, events...))(t)
}

func through(t *testing.T, s *State, docs Documents) *State {
	t.Helper()
	raw := testkit.Value(json.Marshal(s))(t)
	back := testkit.Value(Restore(raw, docs))(t)
	return back
}

// A restored state must go on as the one that was saved: a quarantine can be
// added, and a host that was silent then still fails at its deadline.
func TestS25RestoredStateGoesOn(t *testing.T) {
	const window = 2 * clock.Minute
	docs := oneHost{fleet.Manifest{Channel: "c", Ref: "1", LeafCount: 1, Waves: []fleet.Wave{{Name: "all", Hosts: 1}},
		Policy: fleet.Policy{ConfirmWindow: window, GrantExpiry: clock.Hour, OnHealthFailure: fleet.Halt}}}
	s, now := New(docs), clock.Instant(1_700_000_000_000)
	ref := fleet.ManifestRef{Rollout: "c@1", Digest: digest.Of([]byte("m")), Version: 1}
	record(t, s, "", now, event.ReleaseAccepted{Version: 1, Channels: []event.ChannelRelease{{
		Channel: "c", FreshnessWindow: clock.Hour, OnNewRef: fleet.Queue, Manifests: []fleet.ManifestRef{ref}}}},
		event.TimestampAccepted{Version: 1, IssuedAt: now})
	record(t, s, "h", now, event.HostEnrolled{Incarnation: 1, Token: "t", Serial: "a"})
	record(t, s, "h", now, event.HostReturned{})
	testkit.Value(Next(s, now))(t)
	g := s.Hosts["h"].Grant
	if g == nil {
		t.Fatal("the host got no grant")
	}
	testkit.Value(Claim(s, "h", g.ID, now))(t)
	testkit.Value(Presence(s, "h", false, now, now))(t)
	s = through(t, s, docs)
	early, err := Next(s, now.Add(window/2))
	if err != nil || s.Hosts["h"].SilentFailure {
		t.Fatalf("failed before its deadline: %v, %v", early, err)
	}
	if _, err := Next(s, now.Add(window)); err != nil || !s.Hosts["h"].SilentFailure {
		t.Fatalf("the deadline was lost with the restart: %v", err)
	}
	s = through(t, New(docs), docs)
	s.Channels["c"] = &Channel{Name: "c"}
	s = through(t, s, docs)
	record(t, s, "", now, event.QuarantineAdded{Channel: "c", Digest: digest.Of([]byte("b")), Reason: "r"})
}

// Only the newest certificate and the one it was renewed with are good.
func TestRenewalKeepsTheSerialThatWasUsed(t *testing.T) {
	s := New(oneHost{})
	record(t, s, "h", 1, event.HostEnrolled{Incarnation: 1, Token: "t", Serial: "a"})
	record(t, s, "h", 2, event.CertificateRenewed{Serial: "lost", Presented: "a"})
	record(t, s, "h", 3, event.CertificateRenewed{Serial: "c", Presented: "a"})
	if h := s.Hosts["h"]; h.Serial != "c" || h.PrevSerial != "a" {
		t.Fatalf("serials %q and %q, expected c and a", h.Serial, h.PrevSerial)
	}
	record(t, s, "h", 4, event.HostEnrolled{Incarnation: 2, Token: "u", Serial: "d"})
	if h := s.Hosts["h"]; h.Serial != "d" || h.PrevSerial != "" {
		t.Fatalf("a new incarnation left serials %q and %q", h.Serial, h.PrevSerial)
	}
	if h := s.Hosts["h"]; h.Machine.Phase != host.Phase("") {
		t.Fatalf("a new incarnation is %s", h.Machine.Phase)
	}
}
