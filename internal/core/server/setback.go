package server

import (
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// SetBack says that the log lacks records that were acknowledged, or may lack them. While
// it stands nothing is decided and nobody is let in: the lost records may have revoked
// whoever asks. It is the error of every input but EndSafeMode.
type SetBack struct {
	// Logged is where the log ends, Acknowledged the newest record that is known to have
	// been acknowledged; it is not above Logged when it cannot be said what is missing.
	Logged, Acknowledged uint64
	// Reason says what was found.
	Reason string
}

const setBackNext = "restore the newest backup of the data folder; or go on without what is lost: steady server safe-mode end --data DIR --reason TEXT, on the server's machine"

const noReason = "the reason is missing; the log keeps it"

func (b *SetBack) Error() string {
	return "the server lets nobody in: " + b.Reason + ". A damaged disk or an older copy of the data folder does that, and what is lost may have revoked a host or a token. Next: " + setBackNext
}

// Next says what to do about it.
func (b *SetBack) Next() string { return setBackNext }

// End decides that the owner of the data folder goes on without what is lost.
func (b *SetBack) End(actor, reason string) (event.SafeModeEnded, error) {
	switch {
	case b == nil:
		return event.SafeModeEnded{}, &plan.VerbError{Reason: "the log was not set back, so there is nothing to end"}
	case strings.TrimSpace(reason) == "":
		return event.SafeModeEnded{}, &plan.VerbError{Reason: noReason}
	}
	return event.SafeModeEnded{Actor: actor, Reason: reason, Logged: b.Logged, Acknowledged: b.Acknowledged}, nil
}

// EndSafeMode has a server go on without the events that hosts owe it, or, if its log was
// set back, as after a restore. The latter only the owner of the data folder may ask for: a
// token may be one that was revoked.
type EndSafeMode struct {
	Actor, Reason string
	Owner         bool
}

func (in EndSafeMode) step(s *Server, t *Turn) error {
	if s.setBack == nil {
		return in.endWait(s, t)
	}
	ev, err := s.setBack.End(in.Actor, in.Reason)
	if err != nil || len(t.Events) > 0 { // it is the only thing that is decided: somebody ended it in this turn
		return err
	}
	return t.add(s.Record("", t.Now, ev))
}

// endWait ends the wait for what hosts owe.
func (in EndSafeMode) endWait(s *Server, t *Turn) error {
	ev := event.SafeModeEnded{Actor: in.Actor, Reason: in.Reason}
	for _, owed := range s.safe.owed(s.Plan.Hosts, t.Now) {
		ev.Hosts = append(ev.Hosts, owed.Host)
	}
	switch {
	case len(ev.Hosts) == 0:
		return &plan.VerbError{Reason: "the server is not in safe mode, so there is nothing to end"}
	case strings.TrimSpace(in.Reason) == "":
		return &plan.VerbError{Reason: noReason}
	}
	return t.add(s.Record("", t.Now, ev))
}

// SetBack is why everything is refused, or nil.
func (s *Server) SetBack() *SetBack { return s.setBack }

// refuses returns why an input is refused, if it is.
func (s *Server) refuses(in Input) error {
	if end, ends := in.(EndSafeMode); s.setBack == nil || ends && end.Owner {
		return nil
	}
	return s.setBack
}
