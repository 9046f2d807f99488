package sim

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/sim/shadow"
)

// S25 after every event: a shadow of the leader folds what the leader folds, and
// nothing else ever touches it.

// follow is told of an event before the server folds it, when the one before it is
// folded by both. A server that was replaced folds what no log takes.
func (s *server) follow(e event.Entry, ev event.Event) {
	l := s.w.log
	if s.w.server != s {
		return
	}
	s.agrees()
	if l.shadow == nil {
		fresh, err := l.shade()
		if err != nil {
			s.w.violate("S25", "%v", err)
			return
		}
		l.shadow = fresh
	}
	if err := l.shadow.Fold(e, ev); err != nil {
		s.w.violate("S25", "event %d does not fold again: %v", len(l.entries)+1, err)
		return
	}
	if e.HostSeq != 0 {
		s.w.truth.mirrored(s.w, &e, l.shadow.Machine(e.Host))
	}
}

// agrees compares what the leader folded last, unless that is done.
func (s *server) agrees() {
	if sh := s.w.log.shadow; sh != nil && s.w.server == s {
		if err := sh.Compare(s.state); err != nil {
			s.w.violate("S25", "after event %d %v", s.head, err)
		}
	}
}

// thorough reports whether this schedule folds what is stored, byte for byte, and
// compares everything after every event: one of 16 does.
func (l *ledger) thorough() bool { return l.w.cfg.Seed%16 == 8 }

// shade folds the log as it stands.
func (l *ledger) shade() (*shadow.Shadow, error) {
	sh := shadow.New(l.w.docs, l.thorough(), l.thorough())
	for i, e := range l.entries {
		if err := sh.Fold(e, l.events[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return sh, nil
}

// refold compares all of the state with what the log folds to. In one schedule of
// 16 that is folded once more from the bytes as they are stored, and both are compared
// as they encode.
func (s *server) refold() error {
	l := s.w.log
	if !l.thorough() && l.shadow != nil {
		return l.shadow.Whole(s.state)
	}
	fresh := plan.New(l.w.docs)
	for i, e := range l.entries {
		if err := fresh.Apply(e); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	a, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	b, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		i := 0
		for i < len(a) && i < len(b) && a[i] == b[i] {
			i++
		}
		cut := func(x []byte) []byte { return bytes.TrimSpace(x[max(0, min(i, len(x))-120):min(len(x), i+120)]) }
		return fmt.Errorf("live …%s… folded …%s…", cut(a), cut(b))
	}
	return nil
}
