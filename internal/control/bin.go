package control

import (
	"cmp"
	"context"
	"slices"

	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// binOf is what is kept of what a host says of its bin.
func binOf(m *wire.Bin) wire.Bin {
	line := func(s string) string { return prose.Line(truncated(s)) }
	out := wire.Bin{Count: max(m.Count, 0)}
	for _, v := range m.Volumes[:min(len(m.Volumes), wire.MaxBinned)] {
		out.Volumes = append(out.Volumes, wire.Binned{ID: line(v.ID), Volume: line(v.Volume), Session: line(v.Session), Pod: line(v.Pod), Since: v.Since, Until: v.Until})
	}
	return out
}

// Kept is a volume of a session that is over, on the host that keeps it.
type Kept struct {
	Host string
	wire.Binned
}

// Kept lists the volumes that hosts keep of sessions that are over, what goes first in front, as hosts that are
// there said last; more is how many they have beside.
func (c *Control) Kept() (all []Kept, more int) {
	c.hosts.eachSample(func(name string, s *Sample) {
		for _, v := range s.Bin.Volumes {
			all = append(all, Kept{name, v})
		}
		more += max(0, s.Bin.Count-len(s.Bin.Volumes))
	})
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
	})
	return all, more
}

// Discard has a host remove a kept volume now.
func (c *Control) Discard(ctx context.Context, host, id, actor string) error {
	s, err := c.OpenStream(ctx, host, wire.StreamDiscard, managed.ID(spec.KindVolume, id), wire.StreamArgs{}, actor)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, wire.StreamSilence.Std())
	defer cancel()
	if _, err := s.Collect(ctx, maxAnswer); err != nil {
		return wire.Refuse(wire.ErrConflict, "host %s did not remove %s: %v", host, id, err)
	}
	return nil
}
