package storage_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/testkit"
)

// sessions is volumes of sessions on an engine, with a bin in a file and a clock that the test has.
type sessions struct {
	*lab
	path    string
	wall    clock.Instant
	allowed bool
	volumes *storage.Volumes
}

func beginSessions(t *testing.T) *sessions {
	s := &sessions{lab: begin(t), path: filepath.Join(t.TempDir(), "bin.json"), wall: 1_000_000_000_000, allowed: true}
	s.restart()
	return s
}

// restart begins a new process.
func (s *sessions) restart() {
	s.Helper()
	s.volumes = storage.NewVolumes(storage.VolumeOptions{Engine: s.engine, Owner: s.owner, AllowDelete: func() bool { return s.allow },
		AllowSessions: func() bool { return s.allowed }, Bin: testkit.Value(storage.OpenBin(s.path, nil))(s), Wall: func() clock.Instant { return s.wall }})
}

func (s *sessions) of(v spec.Volume) *row {
	return dockertest.New(s.volumes, spec.KindVolume, v.Name, storage.DesiredVolume{Spec: v, Run: "r"})
}

func (s *sessions) make(v spec.Volume) *row {
	s.Helper()
	r := s.of(v)
	if turn := r.Finish(s, s.ctx); turn.Name != "converged" {
		s.Fatalf("%+v", turn)
	}
	return r
}

func (s *sessions) retire(r *row) {
	s.Helper()
	if turn := r.Delete().Finish(s, s.ctx); turn.Name != "converged" {
		s.Fatalf("%+v", turn)
	}
}

func (s *sessions) bin() string {
	var ids []string
	for _, x := range s.volumes.Binned() {
		ids = append(ids, x.ID)
	}
	return strings.Join(ids, " ")
}

func lifeOf(title string, keep clock.Duration) spec.Volume {
	return spec.Volume{Name: "data", Title: title, Keep: keep, Owner: spec.SessionOwner("lab"), Labels: map[string]string{spec.LabelPod: "lab/p/q"}}
}

// TestKeptVolumes: a kept volume stays until its time over restarts, is the session's again if that has it again, and goes
// by the wall clock.
func TestKeptVolumes(t *testing.T) {
	s := beginSessions(t)
	r := s.make(lifeOf("one", clock.Hour))
	s.retire(r)
	if s.gone("one") || s.bin() != "one" {
		t.Fatalf("the bin has %q", s.bin())
	}
	x := s.volumes.Binned()[0]
	if x.Session != "lab" || x.Pod != "lab/p/q" || x.Volume != "data" || x.Until != s.wall.Add(clock.Hour) || x.Since != s.wall {
		t.Errorf("%+v", x)
	}
	s.restart()
	r = s.make(lifeOf("one", clock.Hour))
	if s.bin() != "" {
		t.Fatalf("it is used, and the bin has %q", s.bin())
	}
	s.wall = s.wall.Add(clock.Minute)
	s.retire(r)
	s.wall = s.wall.Add(clock.Hour - 1)
	s.must(s.volumes.Empty(s.ctx))
	if s.gone("one") {
		t.Fatal("it went too early")
	}
	s.restart()
	s.wall = s.wall.Add(1)
	s.must(s.volumes.Empty(s.ctx))
	if !s.gone("one") || s.bin() != "" {
		t.Errorf("it is due, and the bin has %q", s.bin())
	}
	if err := s.volumes.Discard(s.ctx, "one"); err == nil {
		t.Error("what is in no bin was discarded")
	}
}

// TestVolumesOfSessionsGo: a volume that was made for a session goes with it where sessions are let in; one that was there
// before, or where they are not, stays.
func TestVolumesOfSessionsGo(t *testing.T) {
	s := beginSessions(t)
	s.retire(s.make(lifeOf("one", 0)))
	if !s.gone("one") {
		t.Error("it stays")
	}
	operators := spec.Volume{Name: "data", Title: "two"}
	s.retire(s.make(operators))
	s.retire(s.make(lifeOf("two", 0)))
	s.retire(s.make(lifeOf("two", clock.Hour)))
	if s.gone("two") || s.bin() != "" {
		t.Errorf("the data of operators went with a session, or into the bin: %q", s.bin())
	}
	r := s.make(lifeOf("three", 0))
	s.allowed = false
	s.retire(r)
	if s.gone("three") {
		t.Error("it goes without consent")
	}
}

// TestEarlierSessions: what a session of the same name left while the host was off has no part in the next one.
func TestEarlierSessions(t *testing.T) {
	s := beginSessions(t)
	s.make(lifeOf("one", 0))
	s.make(lifeOf("two", clock.Hour))
	if s.gone("two") || !s.gone("one") {
		t.Fatal("the first is there after the second has come")
	}
	s.make(lifeOf("three", 0))
	if s.gone("two") || s.gone("three") || s.bin() != "two" {
		t.Errorf("the bin has %q", s.bin())
	}
	if err := s.volumes.Discard(s.ctx, "three"); err == nil {
		t.Error("a volume in use was discarded")
	}
	s.must(s.volumes.Discard(s.ctx, "two"))
	if !s.gone("two") || s.gone("three") {
		t.Error("another one than asked was discarded")
	}
}
