package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/simulate"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/trust"
)

const maxFindings = 100

type diagnosis struct {
	OK      bool   `json:"ok"`
	Records uint64 `json:"records"`
	// Pruned is the record behind which the log begins.
	Pruned   uint64    `json:"pruned,omitempty"`
	Head     uint64    `json:"head"`
	Term     uint64    `json:"term"`
	Findings []finding `json:"findings"`
	// Contradictions are what hosts and nodes reported against themselves, the first of
	// each with how many there are. They are no findings: the log holds.
	Contradictions []contradiction `json:"contradictions"`
	More           int             `json:"more,omitempty"` // findings beyond those listed
	// Sources are the troubles with release sources that stand at the log's end.
	// They are no findings: the log says of them what it must.
	Sources map[string]warning.Source `json:"sources,omitempty"`
	// Documents is how many blobs the log names. One that is missing is a finding.
	Documents int `json:"documents"`
	// Unnamed is how many blobs nothing names: the running server removes those that are
	// old enough. It is nil when what hosts may still be given is not known.
	Unnamed *int `json:"unnamed,omitempty"`
	// Warnings say what ends soon or has ended; they are no findings. Expiries is the
	// list that they come from.
	Warnings []string       `json:"warnings"`
	Expiries []warning.Item `json:"expiries"`

	// SetBack says that the log lacks what was acknowledged; it is a finding as well.
	SetBack *setBack `json:"setBack,omitempty"`

	state     *plan.State   // of what ends alone
	live      *server.State // of all; nil once the log cannot be folded
	inventory *documents.Inventory
}

type setBack struct {
	Log          uint64 `json:"log"`
	Acknowledged uint64 `json:"acknowledged"`
	Reason       string `json:"reason"`
}

type finding struct {
	Seq       uint64 `json:"seq"`
	Invariant string `json:"invariant"`
	Message   string `json:"message"`
}

type contradiction struct {
	Host string `json:"host,omitempty"`
	Node string `json:"node,omitempty"`
	finding
	Times int `json:"times"`
}

func (a *app) doctorCmd() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use: "doctor", GroupID: command.GroupMore, Short: "Check a server's log against what must always hold",
		Long: `Reads the whole log in a server's data folder, beside the running server or
without it: the hash chain of the records, every event, the invariants of
rollouts, worked out again from the events alone, and that the documents which
the log names are there. It counts the blobs that nothing names. It changes nothing: the log of a
stopped server is copied below TMPDIR to be read. A log that lacks what was
acknowledged is a finding of S33. Code 1 means that something does not hold; each
finding names its invariant. Code 7 means that all else holds, and what a host
or node reported contradicts itself or the log: it lies, or a record is missing.`,
		Example: "  steady doctor --data data\n  steady doctor --data /var/lib/steady -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := diagnose(cmd.Context(), data, a.Wall())
			if err != nil {
				return err
			}
			if err := a.Print(d, func() error { a.showDiagnosis(d); return nil }); err != nil {
				return err
			}
			switch {
			case !d.OK:
				return exit.Silently(exit.Failed)
			case len(d.Contradictions) > 0:
				return exit.Silently(exit.Contradicted)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	return a.PrintsData(cmd)
}

// openToRead opens the store of a data folder, beside the server that runs on it or without
// one. Then nothing in the folder changes, also where a killed server left work for SQLite.
func openToRead(ctx context.Context, data, dir string) (_ *embedded.Store, err error) {
	lock, err := disk.TryLockFile(filepath.Join(data, lockFile))
	switch {
	case errors.Is(err, disk.ErrLocked):
		return embedded.Open(ctx, dir, embedded.Options{})
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil:
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	return embedded.OpenCopy(ctx, dir, embedded.Options{})
}

func diagnose(ctx context.Context, data string, now clock.Instant) (d diagnosis, err error) {
	dir, err := command.StoreFolder(data)
	if err != nil {
		return d, err
	}
	s, err := openToRead(ctx, data, dir)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	library := documents.New(s)
	d.Findings, d.Contradictions, d.Warnings, d.inventory = []finding{}, []contradiction{}, []string{}, documents.NewInventory(library)
	log, from, err := d.begin(ctx, s, library)
	if err != nil {
		return d, err
	}
	if b := s.SetBack(); b != nil {
		d.SetBack = &setBack{Log: b.Log.Seq, Acknowledged: b.Acknowledged.Seq, Reason: b.Reason}
		d.Findings = append(d.Findings, finding{b.Log.Seq, "S33", "the log was set back: " + b.Reason + "; restore the newest backup, or: steady server safe-mode end --data " + data + " --reason TEXT"})
	}
	head, err := store.Replay(ctx, s, from, func(records []event.Record) error {
		for i := range records {
			if err := d.observe(ctx, log, &records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	if err := d.documents(ctx, s, head.Seq); err != nil {
		return d, err
	}
	if err := d.expiries(ctx, library, data, now); err != nil {
		return d, err
	}
	d.Head, d.Term, d.OK = head.Seq, head.Term, len(d.Findings) == 0
	return d, nil
}

// begin begins where the log does: behind its first record, or behind a checkpoint.
func (d *diagnosis) begin(ctx context.Context, s store.Store, library *documents.Library) (*audit.Log, store.Head, error) {
	begin, err := documents.Begin(ctx, s)
	if err != nil {
		return nil, store.Head{}, err
	}
	if d.live, _, err = begin.Fold(library); err != nil {
		return nil, store.Head{}, err
	}
	expiring, _, err := begin.Fold(library)
	if err != nil {
		return nil, store.Head{}, err
	}
	d.Pruned, d.state, d.Sources = begin.Through.Seq, expiring.Plan, expiring.Plan.Sources
	d.inventory.Begin(ctx, &begin)
	log, err := begin.Auditor(library)
	return log, begin.Through, err
}

// contradicts counts what a host or node reported against itself.
func (d *diagnosis) contradicts(v *audit.Violation, f finding) {
	for i := range d.Contradictions {
		if c := &d.Contradictions[i]; c.Host == v.Host && c.Node == v.Node {
			c.Times++
			return
		}
	}
	d.Contradictions = append(d.Contradictions, contradiction{v.Host, v.Node, f, 1})
}

func (d *diagnosis) observe(ctx context.Context, log *audit.Log, r *event.Record) error {
	d.Records++
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	d.inventory.Observe(ctx, r.Seq, ev)
	if d.live != nil && d.live.Apply(r.Entry) != nil {
		d.live = nil
	}
	if plan.ChangesExpiry(ev) {
		if err := d.state.ApplyEvent(r.Entry, ev); err != nil {
			return err
		}
	}
	d.state.Warn(r.At, ev)
	d.Sources = d.state.Sources
	for _, v := range log.Observe(r.Seq, r.Entry) {
		f := finding{r.Seq, v.Invariant, v.Message}
		if v.Whose() != "" {
			d.contradicts(&v, f)
			continue
		}
		d.found(f)
	}
	return nil
}

func (d *diagnosis) found(f finding) {
	if len(d.Findings) == maxFindings {
		d.More++
		return
	}
	d.Findings = append(d.Findings, f)
}

// documents checks that what the log names is there.
func (d *diagnosis) documents(ctx context.Context, s store.Blobs, head uint64) error {
	named, err := d.inventory.Named()
	if err != nil { // one that names others
		d.found(finding{head, "S33", "a document that the log names cannot be read: " + err.Error() + "; restore store/blobs from a backup"})
		return nil
	}
	d.Documents = len(named)
	for _, b := range named {
		there, err := s.HasBlob(ctx, b)
		if err != nil {
			return err
		}
		if !there {
			d.found(finding{head, "S33", "the log names document " + b.Short() + ", and it is not there; restore store/blobs from a backup"})
		}
	}
	return d.countUnnamed(ctx, s)
}

// countUnnamed counts the blobs that neither the log names nor a host may still be given.
func (d *diagnosis) countUnnamed(ctx context.Context, s store.Blobs) error {
	if d.live == nil {
		return nil
	}
	manifests, bundles := d.live.Live()
	keep, err := d.inventory.Keep(ctx, manifests, bundles)
	if err != nil { // what cannot be read may name the rest
		return nil
	}
	n := 0
	for b, err := range s.Blobs(ctx) {
		if err != nil {
			return err
		}
		if _, named := keep[b]; !named {
			n++
		}
	}
	d.Unnamed = &n
	return nil
}

// expiries judges what ends by the log and the data folder alone, beside the running
// server or without it: what only a server has, its own certificate, is left to
// steady status.
func (d *diagnosis) expiries(ctx context.Context, library *documents.Library, data string, now clock.Instant) error {
	facts := d.state.ExpiryFacts()
	if root := d.state.Root.Root; root != "" {
		env, err := library.Blob(ctx, root)
		if err != nil {
			return fmt.Errorf("the newest root: %w", err)
		}
		r, err := trust.ReadRoot(env)
		if err != nil {
			return fmt.Errorf("the newest root: %w", err)
		}
		facts = append(facts, warning.Fact{Kind: warning.Root, Since: r.IssuedAt, Ends: r.Expires})
	}
	for purpose, kind := range map[identity.Purpose]warning.Kind{identity.Hosts: warning.HostAuthority, identity.Servers: warning.ServerAuthority} {
		raw, err := os.ReadFile(filepath.Join(data, "pki", string(purpose)+"-ca.pem"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a copy of the log alone
		}
		if err != nil {
			return err
		}
		cert, err := identity.ParseCertificate(raw)
		if err != nil {
			return err
		}
		facts = append(facts, warning.Fact{Kind: kind, Since: clock.FromTime(cert.NotBefore), Ends: clock.FromTime(cert.NotAfter)})
	}
	folder, err := control.DataExpiries(data)
	if err != nil {
		return err
	}
	d.Expiries = warning.Items(append(facts, folder...), d.state.ExpiryNow(now))
	for i := range d.Expiries {
		if w := d.Expiries[i].Warning(); w != "" {
			d.Warnings = append(d.Warnings, w)
		}
	}
	return nil
}

func (a *app) showDiagnosis(d diagnosis) {
	for _, w := range d.Warnings {
		a.Printf("WARNING: %s\n", w)
	}
	for _, c := range d.Contradictions {
		a.Printf("%s contradicts itself or the log, %d times, first in %s: %s\n", simulate.Whose(c.Host, c.Node), c.Times, c.Invariant, c.Message)
	}
	for _, f := range d.Findings {
		a.Printf("%d: %s: %s\n", f.Seq, f.Invariant, f.Message)
	}
	if d.More > 0 {
		a.Printf("and %d more\n", d.More)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sources)) {
		for _, t := range []*warning.SourceTrouble{d.Sources[name].Fetch, d.Sources[name].Verify} {
			if t != nil {
				a.Printf("Release source %s, since %s: %s: %s\n", name, t.At, t.Cause, t.Detail)
			}
		}
	}
	if d.Unnamed != nil && *d.Unnamed > 0 {
		a.Printf("%s that nothing names; the server removes those that are older than a day as it runs\n", prose.Count(*d.Unnamed, "blob"))
	}
	if d.Pruned > 0 {
		a.Printf("The log was pruned: it was checked behind record %d, from its checkpoint on\n", d.Pruned)
	}
	if d.OK {
		a.Printf(simulate.Verdict(len(d.Contradictions))+": %d records, chained up to %d, term %d\n", d.Records, d.Head, d.Term)
	}
}
