package agent

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
)

// A host whose state was set back (a lost end of its database, a copy of last week) would
// do again what it did long ago. One that knows is parked: what runs goes on, and
// nothing is started, activated, put right, rebooted or swept, and no event is recorded,
// since the numbers of the next ones are used already. One that cannot know asks the
// server before it resumes anything.

// askFor bounds how long a start waits for the server before it resumes or puts right
// anything: without a server the host goes on.
const askFor = 10 * clock.Second

// Parked says why this host does nothing until it enrols again; Code is one of package
// host.
type Parked struct {
	Code   string        `json:"code"`
	Detail string        `json:"detail,omitempty"`
	Since  clock.Instant `json:"since"`
}

// Message says in words why.
func (p *Parked) Message() string {
	m := host.ParkedMessage(p.Code)
	if p.Detail != "" {
		m += " (" + p.Detail + ")"
	}
	return m
}

// ErrParked drops what a parked host is given.
var ErrParked = errors.New("the host is parked: its state was set back, and it does nothing until it enrols again")

// errAsks drops what comes while the host asks whether its state was set back; all of
// it comes again.
var errAsks = errors.New("the host asks the server first whether its state is the newest")

// ServerChain is what an answer of the server tells of this host's own chain of events:
// Newest is the newest that the server has, and Last the newest here as the answer came.
type ServerChain struct {
	Newest, Last uint64
	// Differs says that event Newest is another one here.
	Differs bool
	// Proven says that the server showed that head with this host's own signature.
	Proven bool
}

// Matters reports whether the answer has to be given to a host that asks, or does not.
func (in ServerChain) Matters(asks bool) bool { return asks || in.Proven && in.behind() }

func (in ServerChain) behind() bool { return in.Newest > in.Last || in.Differs }

func (in ServerChain) apply(t *turn) error {
	switch {
	case in.behind() && in.Proven:
		t.park(host.ParkedByServer, "")
	case in.behind(), !t.s.Unconfirmed():
		// without the signature anybody can say it
	default:
		return t.goOn()
	}
	return nil
}

// Unconfirmed reports whether the server is yet to say, by a ServerChain, that this host's state
// is the newest.
func (s *State) Unconfirmed() bool { return s.askUntil != 0 }

// admits says why an input is not taken now, or nil.
func (s *State) admits(in Input) error {
	if _, starts := in.(Started); starts {
		return nil
	}
	if s.Parked != nil {
		return ErrParked
	}
	switch in.(type) {
	case ServerChain, Elapsed, Refused, OverridesReceived:
		return nil
	case Granted, Measured:
		if s.Unconfirmed() {
			return errAsks
		}
	}
	if s.held != nil {
		return errAsks
	}
	return nil
}

// park ends all that this host does.
func (t *turn) park(code, detail string) {
	s := t.s
	s.Parked = &Parked{Code: code, Detail: detail, Since: t.now}
	t.stayParked()
}

func (t *turn) stayParked() {
	s := t.s
	s.askUntil, s.held, t.Save = 0, nil, true
	s.probing = false
	t.emit(StopResources{Parked: *s.Parked})
}

// ask puts off what a start would resume until the server has answered, or askFor has
// passed. It reports whether there is anything to resume; without, only repairs wait.
func (t *turn) ask(in Started) bool {
	s := t.s
	s.askUntil = t.now.Add(askFor)
	if s.resumes() {
		s.held = &in
	}
	return s.held != nil
}

// resumes reports whether a start goes on with something that changes what runs.
func (s *State) resumes() bool {
	m := &s.Machine
	return s.Offer != nil || s.Removal.empties() || s.Repairs.Grant != "" || m.Phase == host.Activating || m.Phase == host.Soaking || m.Phase == host.Deferred ||
		m.Phase == host.Failed && m.Reverting
}

// goOn ends the asking: what was put off is resumed.
func (t *turn) goOn() error {
	s := t.s
	if !s.Unconfirmed() {
		return nil
	}
	in := s.held
	s.askUntil, s.held, t.Save = 0, nil, true
	if in != nil {
		return in.resume(t)
	}
	t.emit(RunResources{})
	t.sweep()
	return nil
}

// unanswered goes on without the server, and has the next step of the machine say so.
func (t *turn) unanswered() error {
	t.s.unconfirmed = t.s.held != nil
	return t.goOn()
}
