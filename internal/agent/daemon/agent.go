package daemon

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
)

// Agent is one host's agent.
type Agent struct {
	cfg      Config
	id       uplink.Identity
	store    *state.Store
	rows     *rows.Store
	loop     *reconcile.Controller
	time     *state.Timeline
	eventKey crypto.Signer
	cert     *uplink.Certificate
	client   *uplink.Client
	follower *verify.Follower
	carrier  *preparation.Carrier
	content  *preparation.Cache
	nars     *preparation.Nars
	hosting  *hosting.Hosting
	runner   *probe.Runner
	repairs  *repairGate
	preparer *preparation.Preparer

	inbox         chan message
	wakeObserve   chan struct{} // the generation or a repair may have moved
	wakeUplink    chan struct{} // there may be events to send
	wakeLater     chan struct{} // likewise, and they can wait for more
	wakeContact   chan struct{} // there is a new contact
	wakeHeartbeat chan struct{} // a heartbeat is due: the server answers again, or has to know something

	// era and wantContact are the reducer's Era and AwaitsContact; contact is the newest
	// accepted request that was awaited.
	era         atomic.Int64
	wantContact atomic.Bool
	contact     atomic.Pointer[core.Contact]
	newest      atomic.Pointer[core.NewestPlan]
	unlearned   atomic.Bool  // the newest delegation could not be read
	overrides   overrideList // that was accepted; the uplink's
	servers     core.Servers // the uplink's too
	measuredAt  time.Time    // the host's facts; the uplink's too
	remeasure   atomic.Bool  // with the next heartbeat
	lastContact atomic.Int64
	serverError atomic.Pointer[string]
	outage      outage
	committed   atomic.Pointer[core.State] // as of the last commit
	started     time.Time
	signed      atomic.Pointer[state.SignedTime]
	process     string        // drawn at random for this run
	mark        atomic.Uint64 // of the server's latest reply to a heartbeat
	fatal       chan error    // the first failure of the database

	r        *reducer
	setBack  *core.Parked       // the stored state is older than its anchor
	stopLoop context.CancelFunc // nil until resources are acted on; the reducer's

	// cut, when set, is called after every commit and may end the process there;
	// tests cut between any two steps.
	cut func() error
}

// Open takes the state folder for this process and loads what is in it. It
// fails if another agent has it, or if the host was not enrolled.
func Open(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, inbox: make(chan message, 64), wakeObserve: make(chan struct{}, 1), wakeUplink: make(chan struct{}, 1), wakeLater: make(chan struct{}, 1),
		wakeContact: make(chan struct{}, 1), wakeHeartbeat: make(chan struct{}, 1),
		started: time.Now(), process: rand.Text(), fatal: make(chan error, 1),
	}
	ctx := context.Background()
	unmake := unmade(cfg.StateDir)
	a.store, a.rows, err = openStore(ctx, cfg.StateDir, state.Options{Light: cfg.Light, Driver: cfg.Driver}, rows.WithOnTransition(a.onTransition))
	if err != nil {
		return nil, err
	}
	if err := a.load(ctx); err != nil {
		return nil, errors.Join(err, a.store.Close(), unmake())
	}
	return a, nil
}

func openStore(ctx context.Context, dir string, o state.Options, opts ...rows.Option) (*state.Store, *rows.Store, error) {
	var r *rows.Store
	o.Migrate = func(ctx context.Context, db *sql.DB, tx *sql.Tx) error {
		r = rows.New(db, opts...)
		return r.Migrate(ctx, tx)
	}
	s, err := state.Open(ctx, dir, o)
	if err != nil {
		return nil, nil, err
	}
	// The framework prepares its statements here: later it would wait for the one
	// connection, which a transaction that waits for the framework may hold.
	if _, err := r.Open(ctx); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, r, nil
}

// agentDoc is the reducer's durable state.
type agentDoc struct {
	Agent core.State    `json:"agent"`
	Now   clock.Instant `json:"now"` // when it was written
}

// Keys in the database.
const (
	keyAgent    = "agent"
	keyClock    = "clock"
	keyIdentity = "identity"
	keyServers  = "servers"
	keyTrust    = "trust"
	keySigned   = "signed"
	keyManifest = "manifest/" // and a digest's hexadecimal
)

func (a *Agent) load(ctx context.Context) error {
	if ok, err := a.store.Get(ctx, keyIdentity, &a.id); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%s has no identity; enrol the host first: give it a token of steady token create with --token", a.cfg.StateDir)
	}
	if err := os.MkdirAll(a.cfg.Root, 0o755); err != nil {
		return fmt.Errorf("the root folder of this host: %w", err)
	}
	var err error
	if a.setBack, err = a.store.Anchor(ctx, a.id.Incarnation); err != nil {
		return err
	}
	var doc agentDoc
	var cd state.TimelineDoc
	var ts trust.State
	for key, v := range map[string]any{keyAgent: &doc, keyClock: &cd, keyTrust: &ts} {
		if ok, err := a.store.Get(ctx, key, v); err != nil {
			return err
		} else if !ok {
			return fmt.Errorf("agent.db has no %s; enrol the host again", key)
		}
	}
	newest, err := a.store.Newest(ctx)
	if err != nil {
		return err
	}
	if a.time, err = cd.Resume(a.cfg.Clock, max(doc.Now, newest)); err != nil {
		return err
	}
	if err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.PutDoc(ctx, tx, keyClock, a.time.Doc()) }); err != nil {
		return err
	}
	var n core.NewestPlan
	if ok, err := a.store.Get(ctx, keyDelegation, &n); err != nil {
		return err
	} else if ok {
		a.newest.Store(&n)
	}
	var seen state.SignedTime
	if _, err := a.store.Get(ctx, keySigned, &seen); err != nil {
		return err
	}
	a.signed.Store(new(seen.After(ts.Floor, a.time.Now())))
	if err := a.connect(ts); err != nil {
		return err
	}
	a.runner = probe.NewRunner(a.onProbe)
	a.r = newReducer(a, doc.Agent)
	return a.manage(ctx)
}

// connect loads the keys and makes the client and the follower.
func (a *Agent) connect(ts trust.State) error {
	if _, err := a.store.Get(context.Background(), keyServers, &a.servers); err != nil {
		return err
	}
	servers := a.servers.Addresses(a.cfg.Server, a.id.Server)
	var err error
	if a.eventKey, err = uplink.EventKey(a.store.KeyPath); err != nil {
		return err
	}
	if a.cert, err = uplink.LoadCertificate(&a.id, a.store.KeyPath); err != nil {
		return err
	}
	tlsConfig, err := uplink.TLSConfig(servers[0], a.id.ServerCA, a.cert.Get, a.wall)
	if err != nil {
		return err
	}
	a.client, err = uplink.NewClient(uplink.ClientOptions{
		Servers: servers, TLS: tlsConfig, Dial: a.cfg.Dial, Begin: a.era.Load, Accepted: a.onAccepted,
	})
	if err != nil {
		return err
	}
	a.follower, err = verify.New(verify.Options{
		Fleet: a.id.Fleet, Host: a.id.Host, Source: a.client, Wall: a.signedWall,
		Missing: func(err error) bool { return uplink.StatusOf(err) == 404 },
		Save:    a.saveTrust,
	}, ts)
	return err
}

// manage makes the framework's loop with the reconcilers of this host.
func (a *Agent) manage(ctx context.Context) error {
	workers := 4
	if a.cfg.Hosting.Engine != "" {
		workers = 48 // most of them wait for the engine
	}
	if a.cfg.Light {
		workers = 1
	}
	a.carrier = preparation.NewCarrier(a.client)
	a.content = preparation.NewCache(a.store, a.carrier)
	a.nars = preparation.NewNars(filepath.Join(a.cfg.StateDir, "nix-cache"), a.client, a.content, a.cfg.Log)
	a.repairs = newRepairGate(a.committed.Load, a.time.Now)
	a.repairs.staged = a.stagedIn
	a.loop = reconcile.New(a.rows,
		reconcile.WithNow(func() time.Time { return a.time.Now().Time() }), reconcile.WithWorkers(workers), reconcile.WithUnknownFields(), reconcile.WithLogger(a.cfg.Log),
		reconcile.WithAfterCommit(a.afterCommit), reconcile.WithRepairGate(a.repairs.Admit), reconcile.WithDebounce(debounce.Std()),
		reconcile.WithOrphans(func(kind string, refs []engine.Ref) { a.hosting.Orphans(kind, refs) }))
	var err error
	a.hosting, err = hosting.Open(ctx, hosting.Options{
		Config: a.cfg.Hosting, Fleet: a.id.Fleet, Host: a.id.EngineName(), StateDir: a.cfg.StateDir, Root: a.cfg.Root, Machine: a.cfg.Machine,
		Agent: hostingAgent{a}, Store: a.store, Rows: a.rows, Loop: a.loop, Client: a.client, Content: a.content,
		Resync: a.cfg.Resync, Log: a.cfg.Log, Now: a.time.Now, Wall: a.signedWall,
	})
	if err != nil {
		return err
	}
	sys := system.Host{
		Root: a.cfg.Root, Name: a.id.Host, BootID: a.time.BootID(), Content: a.content, Ledger: a.store, Keeper: state.FileKeeper{Store: a.store, Now: a.time.Now, Wake: a.report},
		Log: a.cfg.Log, Resync: a.cfg.Resync, Title: a.hosting.Title(), Requests: a.hosting.Requests, Systems: filepath.Join(a.cfg.StateDir, "systems"),
		Nars: a.nars,
	}
	a.preparer = &preparation.Preparer{Root: a.cfg.Root, StateDir: a.cfg.StateDir, Store: a.store, Server: a.carrier,
		Follower: a.follower, Content: a.content, Containers: a.hosting, System: sys, Nars: a.nars,
		Back: func() digest.Digest { return a.committed.Load().WayBack() }}
	return system.Register(a.loop, sys)
}

// debounce makes one turn of a burst of events of the container engine.
const debounce = 20 * clock.Millisecond

// Run runs the agent until ctx ends or its database fails; the latter is an
// error and the process should end. It may be called once.
func (a *Agent) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer a.client.Close() // idle connections have goroutines of their own
	a.r.workers = g
	start := core.Started{BootID: a.time.BootID(), Current: a.r.state.Machine.Current, SetBack: a.setBack, Confirm: true}
	if err := a.r.step(ctx, message{in: start}); err != nil {
		return err
	}
	g.Go(func() error { return a.r.run(ctx) })
	g.Go(func() error { return a.runner.Run(ctx) })
	g.Go(func() error { return a.follow(ctx) })
	g.Go(func() error {
		return a.uplink().Run(ctx, uplink.Wakes{Prompt: a.wakeUplink, Later: a.wakeLater, Heartbeat: a.wakeHeartbeat})
	})
	g.Go(func() error { return a.hosting.Run(ctx) })
	g.Go(func() error {
		select {
		case err := <-a.fatal:
			return err
		case <-a.store.Broken():
			return a.store.Err()
		case <-ctx.Done():
			return nil
		}
	})
	err := g.Wait()
	if broken := a.store.Err(); broken != nil {
		return broken // whoever met it first may have said less
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// DiskFull reports whether what Open or Run returned comes of a full disk or quota below
// the state folder: then the agent can be opened again once there is room. It judges by
// the error alone, since room may have come back by now.
func DiskFull(err error) bool { return state.Full(err) }

// die ends Run with the first failure of the database.
func (a *Agent) die(err error) {
	select {
	case a.fatal <- err:
	default: // one is enough
	}
}

// post gives an input to the reducer. It reports whether it was taken before ctx
// ended.
func (a *Agent) post(ctx context.Context, in core.Input) bool { return a.send(ctx, message{in: in}) }

func (a *Agent) send(ctx context.Context, m message) bool {
	select {
	case a.inbox <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// wake wakes whoever waits on c, without blocking.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close releases the state folder. Call it after Run has returned.
func (a *Agent) Close() error { return a.store.Close() }

// Status is a snapshot for people and tests.
type Status struct {
	Fleet       string                 `json:"fleet"`
	Host        string                 `json:"host"`
	Incarnation uint64                 `json:"incarnation"`
	BootID      string                 `json:"bootId"`
	Now         clock.Instant          `json:"now"` // on the agent's clock
	Machine     host.State             `json:"machine"`
	Offer       *core.Offer            `json:"offer,omitempty"`
	Quarantine  []core.QuarantineEntry `json:"quarantine,omitempty"`
	// Repairs are those that need a grant.
	Repairs core.Repairs `json:"repairs,omitzero"`
	// Overrides are the signed overrides that this host accepted.
	Overrides gate.Overrides `json:"overrides,omitzero"`
	MaxTerm   uint64         `json:"maxTerm"`
	LastSeq   uint64         `json:"lastSeq"`  // of the newest event
	AckedSeq  uint64         `json:"ackedSeq"` // the server holds it
	// LastContact is when the server last accepted a request; zero if never
	// since the agent started.
	LastContact clock.Instant `json:"lastContact"`
	// Server is the last error in talking to the server; empty when it answers.
	Server string `json:"server,omitempty"`
	// Refused is the last refusal of what the server gave, until it is cured.
	Refused string        `json:"refused,omitempty"`
	Current digest.Digest `json:"current,omitempty"`
	// Parked says why the host does nothing until it enrols again.
	Parked *core.Parked `json:"parked,omitempty"`
}

// Status returns the agent's state as of its last committed input. It may be
// called from any goroutine between Open and Close.
func (a *Agent) Status() Status {
	c := a.committed.Load()
	s := Status{
		Fleet: a.id.Fleet, Host: a.id.Host, Incarnation: a.id.Incarnation, BootID: a.time.BootID(), Now: a.time.Now(),
		Machine: c.Machine, Offer: c.Offer, Quarantine: c.Quarantine, Repairs: c.Repairs, Overrides: c.Overrides, MaxTerm: c.MaxTerm,
		LastContact: clock.Instant(a.lastContact.Load()), Refused: c.LastRefusal, Current: c.Machine.Current, Parked: cmp.Or(c.Parked, a.setBack),
	}
	if e := a.serverError.Load(); e != nil {
		s.Server = *e
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if last, acked, err := a.store.Heads(ctx); err == nil {
		s.LastSeq, s.AckedSeq = last, acked
	}
	return s
}

// onAccepted notes that the server accepted a request that began in an era.
func (a *Agent) onAccepted(era int64, served time.Duration) {
	a.lastContact.Store(int64(a.time.Now()))
	if a.answered() {
		wake(a.wakeHeartbeat)
	}
	if era == a.era.Load() && a.wantContact.Load() {
		a.contact.Store(&core.Contact{Era: clock.Instant(era), Served: clock.FromStd(served)})
		wake(a.wakeContact)
	}
}
