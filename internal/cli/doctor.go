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
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/sqlite"
	"github.com/steadyfleet/steady/internal/trust"
)

// maxFindings bounds what doctor lists.
const maxFindings = 100

// diagnosis is what doctor found.
type diagnosis struct {
	OK       bool      `json:"ok"`
	Records  uint64    `json:"records"`
	Head     uint64    `json:"head"`
	Term     uint64    `json:"term"`
	Findings []finding `json:"findings"`
	More     int       `json:"more,omitempty"` // findings beyond those listed
	// Sources are the troubles with release sources that stand at the log's end.
	// They are no findings: the log says of them what it must.
	Sources map[string]plan.Source `json:"sources,omitempty"`
	// Warnings say what ends soon; they are no findings.
	Warnings []string `json:"warnings"`

	root digest.Digest // the newest that the log trusts
}

type finding struct {
	Seq       uint64 `json:"seq"`
	Invariant string `json:"invariant"`
	Words     string `json:"words"`
}

func (a *app) doctorCmd() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use: "doctor", GroupID: command.GroupMore, Short: "Check a server's log against what must always hold",
		Long: `Reads the whole log in a server's data folder, beside the running server or
without it: the hash chain of the records, every event, and the invariants of
rollouts, worked out again from the events alone. It changes nothing. Code 1
means that something does not hold; each finding names its invariant.`,
		Example: "  steady doctor --data data\n  steady doctor --data /var/lib/steady -o json",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := diagnose(cmd.Context(), data, a.Wall())
			if err != nil {
				return err
			}
			if err := a.Print(d, func() error { a.showDiagnosis(d); return nil }); err != nil {
				return err
			}
			if !d.OK {
				return exit.Silently(exit.Failed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	return a.PrintsData(cmd)
}

func diagnose(ctx context.Context, data string, now clock.Instant) (d diagnosis, err error) {
	dir := filepath.Join(data, "store")
	if _, err := os.Stat(dir); data == "" || err != nil {
		return d, exit.Badf("--data %q is no server's data folder; give with --data DIR the one that steady server has", data)
	}
	s, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	library := documents.New(s)
	log := audit.NewLog(library)
	d.Findings = []finding{}
	head, err := store.Replay(ctx, s, store.Head{}, func(records []event.Record) error {
		for i := range records {
			if err := d.observe(library, log, &records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	if d.Warnings, err = expiries(ctx, library, d.root, data, now); err != nil {
		return d, err
	}
	d.Head, d.Term, d.OK = head.Seq, head.Term, len(d.Findings) == 0
	return d, nil
}

func (d *diagnosis) observe(library *documents.Library, log *audit.Log, r *event.Record) error {
	d.Records++
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	switch v := ev.(type) {
	case event.ReleaseAccepted:
		library.Learn(v)
	case event.RootTrusted:
		d.root = v.Root
	}
	d.Sources = plan.FoldSources(d.Sources, r.At, ev)
	for _, v := range log.Observe(r.Seq, r.Entry) {
		if len(d.Findings) == maxFindings {
			d.More++
			continue
		}
		d.Findings = append(d.Findings, finding{r.Seq, v.Invariant, v.Words})
	}
	return nil
}

// expiries warns of what ends soon: the newest root of the log, and the authorities
// beside it.
func expiries(ctx context.Context, library *documents.Library, root digest.Digest, data string, now clock.Instant) ([]string, error) {
	warnings := []string{}
	warn := func(e identity.Expiry) {
		if w := e.Warning(now); w != "" {
			warnings = append(warnings, w)
		}
	}
	if root != "" {
		env, err := library.Blob(ctx, root)
		if err != nil {
			return nil, fmt.Errorf("the newest root: %w", err)
		}
		r, err := trust.ReadRoot(env)
		if err != nil {
			return nil, fmt.Errorf("the newest root: %w", err)
		}
		warn(identity.Expiry{What: fmt.Sprintf("the root of trust, version %d", r.Version), At: r.Expires,
			Then: "nothing new is accepted", Next: "steady keys rotate && steady keys root push"})
	}
	for _, p := range []identity.Purpose{identity.Hosts, identity.Servers} {
		raw, err := os.ReadFile(filepath.Join(data, "pki", string(p)+"-ca.pem"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a copy of the log alone
		}
		if err != nil {
			return nil, err
		}
		cert, err := identity.ParseCertificate(raw)
		if err != nil {
			return nil, err
		}
		warn(identity.Expiry{What: "the authority of " + string(p), At: clock.FromTime(cert.NotAfter),
			Then: "no host can connect", Next: "steady server init-ca --replace, after which every host enrols again"})
	}
	return warnings, nil
}

func (a *app) showDiagnosis(d diagnosis) {
	for _, w := range d.Warnings {
		a.Say("WARNING: %s\n", w)
	}
	for _, f := range d.Findings {
		a.Say("%d: %s: %s\n", f.Seq, f.Invariant, f.Words)
	}
	if d.More > 0 {
		a.Say("and %d more\n", d.More)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sources)) {
		for _, t := range []*plan.SourceTrouble{d.Sources[name].Fetch, d.Sources[name].Verify} {
			if t != nil {
				a.Say("Release source %s, since %s: %s: %s\n", name, t.At, t.Cause, t.Detail)
			}
		}
	}
	if d.OK {
		a.Say("All holds: %d records, chained up to %d, term %d\n", d.Records, d.Head, d.Term)
	}
}
