package server

import (
	"cmp"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Config are the times and bounds by which a server decides. Zero takes the default.
type Config struct {
	// Heartbeat is how often hosts report; the default is 60 s.
	Heartbeat clock.Duration
	// OfflineAfter is how long a host may be silent; the default is three heartbeats.
	OfflineAfter clock.Duration
	// MaxTickGap bounds the time between two ticks while there is work; the default is
	// 500 ms.
	MaxTickGap clock.Duration
	// ReconcileInterval is how often a tick happens without a reason where no channel
	// asks for one sooner; the default is 30 s.
	ReconcileInterval clock.Duration
	// OnReasonOnly leaves out all that is done without a reason, so that a world comes to
	// rest, and shows that nothing is decided by chance.
	OnReasonOnly bool
	// ReplayWait is how long after the start a host that knows a longer log may keep the
	// server from granting; the default is 10 min.
	ReplayWait clock.Duration
	// Retention is how long ended rollouts are kept whole.
	Retention plan.Retention
	// PushBackoff is how long pushes to nodes that failed wait until they are tried again.
	PushBackoff drift.Backoff
	// HostLog is what one host or node may add to the log, in bytes; the default is a burst of
	// 16 MiB, and then 4 KiB a second.
	HostLog RateLimit
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, clock.Minute)
	c.OfflineAfter = cmp.Or(c.OfflineAfter, 3*c.Heartbeat)
	c.MaxTickGap = cmp.Or(c.MaxTickGap, 500*clock.Millisecond)
	c.ReconcileInterval = cmp.Or(c.ReconcileInterval, 30*clock.Second)
	c.ReplayWait = cmp.Or(c.ReplayWait, 10*clock.Minute)
	c.Retention = cmp.Or(c.Retention, plan.DefaultRetention)
	c.PushBackoff = c.PushBackoff.WithDefaults()
	c.HostLog = cmp.Or(c.HostLog, RateLimit{Burst: 16 << 20, Tokens: 4 << 10, Per: clock.Second})
	return c
}

// Time is an instant by two clocks.
type Time struct {
	Now clock.Instant // of the wall clock, which for a server never goes back
	Up  time.Duration // since any fixed instant, by a clock that nobody sets
}

// Contacts is what requests of hosts showed since the process began.
type Contacts interface {
	// LastSeen is when a host was last seen, zero for never; polling says that it
	// has a request open.
	LastSeen(host string) (at clock.Instant, polling bool)
	// LastEvent is the number of the newest event that a host says it made; ok is false
	// when it said nothing yet.
	LastEvent(host string) (seq uint64, ok bool)
}

// Server decides for one process that leads on a log. It holds the folded state, and
// what a process knows beside the log: who was heard from, whose history is longer than
// the log's, and when the planner ran last.
type Server struct {
	*State
	cfg      Config
	contacts Contacts
	term     uint64
	nonce    string
	presence presence
	safe     safeMode
	roll     rollCall
	pace     pace
	// outranked names a host that has seen a higher term; raisedAt is when the term was
	// raised last, and raises what each host may have it raised.
	outranked string
	raisedAt  clock.Instant
	raises    map[string]*RateBucket
	shares    map[string]*nodeShare // of nodes
	setBack   *SetBack              // nil, or why everything is refused
	overview  plan.Overview
}

// MaxNonce bounds the nonce of Begin, so that the names of grants stay short.
const MaxNonce = 6

// Begin returns the server of a process that leads under a term and folded s from its
// log. Nonce are 1 to MaxNonce lower-case letters and digits that no other process drew:
// grants carry them. Old says that the log held something: it may be a backup. With b nothing is
// decided until EndSafeMode.
func Begin(cfg Config, s *State, term uint64, nonce string, contacts Contacts, t Time, old bool, b *SetBack) *Server {
	r := &Server{State: s, cfg: cfg, contacts: contacts, nonce: nonce, raises: map[string]*RateBucket{}, shares: map[string]*nodeShare{}, raisedAt: t.Now, setBack: b}
	r.Raised(term)
	r.pace.planned = map[string]clock.Instant{}
	r.open(t, old)
	return r
}

// open begins to lead on the log as it is.
func (s *Server) open(t Time, old bool) {
	s.safe = beginSafeMode(s.Plan.Hosts, t.Now.Add(s.cfg.ReplayWait))
	if old {
		s.roll.call(t.Now.Add(s.cfg.OfflineAfter))
	}
	s.restart(t)
}

// Reload goes on with a state that was folded again, after a commit that failed.
func (s *Server) Reload(state *State, t Time) {
	s.State, s.overview = state, plan.Overview{}
	s.Raised(s.term)
	s.restart(t)
}

func (s *Server) restart(t Time) {
	s.presence.restart(s.Plan, s.cfg.OfflineAfter, t.Now)
	s.pace.dirty, s.pace.urgent = true, false
}

// Turn collects what is decided together and committed at once.
type Turn struct {
	Time
	Events  []event.Entry
	Effects []Effect
}

func (t *Turn) add(entries []event.Entry, err error) error {
	t.Events = append(t.Events, entries...)
	return err
}

// Effect is something to carry out, whether or not the turn is committed.
type Effect interface{ effect() }

// SafeModeChanged says that Block may answer otherwise. Host, if set, is news: it
// claims that Claimed of its events were acknowledged, the log has Logged.
type SafeModeChanged struct {
	Host            string
	Logged, Claimed uint64
}

// HistoryLost names a host that never sent the events that it says were acknowledged.
type HistoryLost struct{ Host string }

// TermDoubted names a host that says to have seen higher terms more often than it is believed.
type TermDoubted struct{ Host string }

// NodeLimited names a node that was put off, since it has used its share. News is true once an hour.
type NodeLimited struct {
	Node, Reason string
	News         bool
}

func (NodeLimited) effect()     {}
func (SafeModeChanged) effect() {}
func (TermDoubted) effect()     {}
func (HistoryLost) effect()     {}

// Step decides one input and folds the decision. When Refused reports true of the error
// the input changed nothing; after any other error the state must be thrown away.
func (s *Server) Step(t *Turn, in Input) error {
	if err := s.refuses(in); err != nil {
		return err
	}
	before := len(t.Events)
	err := in.step(s, t)
	if _, ofNodes := in.(Nodes); !ofNodes { // which follow their own due times
		s.pace.dirty = s.pace.dirty || len(t.Events) > before
	}
	return err
}

// MustRaise names a host that has seen a higher term than the log's, as hosts did when it
// was restored from a backup, and refuses what is older; it is empty while there is none. The
// caller takes the lease under the next term and calls Raised.
func (s *Server) MustRaise(t Time) (host string) {
	if s.setBack != nil || s.outranked == "" || !s.raisedAt.Add(raisePause).Reached(t.Now) {
		return ""
	}
	host, s.outranked, s.raisedAt = s.outranked, "", t.Now
	return host
}

// hostRaises is how often one host, which nothing but its word shows to have seen a higher term,
// has it raised: more terms at once than most backups are behind, and then one a minute.
var hostRaises = RateLimit{Burst: 64, Tokens: 1, Per: clock.Minute}

// outrank takes a host's word that it has seen a higher term.
func (s *Server) outrank(host string, t *Turn) {
	if s.outranked != "" {
		return // it is raised anyway
	}
	b := s.raises[host]
	if b == nil {
		b = &RateBucket{}
		s.raises[host] = b
	}
	if b.Spend(hostRaises, 1, t.Now) > 0 {
		t.Effects = append(t.Effects, TermDoubted{host})
		return
	}
	s.outranked = host
}

// Raised has the server lead under a term.
func (s *Server) Raised(term uint64) {
	s.term = term
	s.Plan.Lead(plan.Run(term, s.nonce))
}

// raisePause is the least time between two raises of the term.
const raisePause = clock.Second

// Block blocks everything but rollbacks while a host owes a part of the log, or is nil.
func (s *Server) Block(now clock.Instant) *gate.Block { return s.safe.block(s.Plan.Hosts, now) }

// Restored is what the server knows of its log beside the state.
func (s *Server) Restored(now clock.Instant) plan.Restored {
	r := plan.Restored{Behind: s.Block(now), Missing: s.roll.missingHosts(s.Plan.Hosts, s.contacts.LastEvent, now), Until: s.roll.until}
	if r.Missing != nil {
		r.Reported = func(name string) bool { return heard(s.Plan.Hosts[name], s.contacts.LastEvent) }
	}
	return r
}

// Explain begins to answer why hosts wait, and tells what the server itself waits for.
func (s *Server) Explain(now clock.Instant) *plan.Explainer {
	return plan.Explain(s.Plan, now).Restored(s.Restored(now))
}
