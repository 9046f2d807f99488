package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/sqlite"
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
			d, err := diagnose(cmd.Context(), data)
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

func diagnose(ctx context.Context, data string) (d diagnosis, err error) {
	dir := filepath.Join(data, "store")
	if _, err := os.Stat(dir); data == "" || err != nil {
		return d, exit.Badf("%q is no server's data folder; give that of steady server with --data", data)
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
	d.Head, d.Term, d.OK = head.Seq, head.Term, len(d.Findings) == 0
	return d, nil
}

func (d *diagnosis) observe(library *documents.Library, log *audit.Log, r *event.Record) error {
	d.Records++
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	if v, ok := ev.(event.ReleaseAccepted); ok {
		library.Learn(v)
	}
	for _, v := range log.Observe(r.Seq, r.Entry) {
		if len(d.Findings) == maxFindings {
			d.More++
			continue
		}
		d.Findings = append(d.Findings, finding{r.Seq, v.Invariant, v.Words})
	}
	return nil
}

func (a *app) showDiagnosis(d diagnosis) {
	for _, f := range d.Findings {
		a.Say("%d: %s: %s\n", f.Seq, f.Invariant, f.Words)
	}
	if d.More > 0 {
		a.Say("and %d more\n", d.More)
	}
	if d.OK {
		a.Say("All holds: %d records, chained up to %d, term %d\n", d.Records, d.Head, d.Term)
	}
}
