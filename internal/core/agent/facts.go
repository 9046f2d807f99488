package agent

import "github.com/steadyfleet/steady/internal/core/event"

// Measured is what the host is. It is reported when it is not what was reported last.
type Measured struct {
	Facts event.HostFacts
	// Silent says that the engine did not answer: what was reported of it and its disk stays.
	Silent bool
}

func (in Measured) apply(t *turn) error {
	now, last := in.Facts, t.s.Facts
	if in.Silent && last != nil {
		now.Engine, now.EngineAPI, now.Disk = last.Engine, last.EngineAPI, last.Disk
	}
	if err := now.Check(); err != nil { // the server refuses it, and all that follows
		t.Dropped = err
		return nil
	}
	if last != nil && last.Equal(now) {
		return nil
	}
	t.s.Facts = &now
	t.report(now)
	return nil
}
