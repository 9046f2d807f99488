package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Of the events of a host, this many of the newest are searched for a resource's, and
// this many of those are shown.
const (
	explainFrom  = 1000
	explainShown = 10
)

// explanation is why a resource is as it is.
type explanation struct {
	Host     string            `json:"host"`
	Presence gate.HostPresence `json:"presence"`
	LastSeen clock.Instant     `json:"lastSeen,omitempty"`
	// Release brought the bundle that the host runs.
	Release  string            `json:"release,omitempty"`
	Bundle   string            `json:"bundle,omitempty"`
	Resource operator.Resource `json:"resource"`
	// Set is who set it in the managed layer; nil for a resource of the bundle.
	Set *operator.ManagedResource `json:"set,omitempty"`
	// Reports are the newest of the host's own about it, the oldest first. Their times are
	// on the host's clock.
	Reports []explained `json:"reports"`
}

type explained struct {
	At       clock.Instant `json:"at"` // on the host's clock
	Received clock.Instant `json:"received"`
	event.ResourceReported
}

// ExplainCmd says why a resource of a host is as it is.
func ExplainCmd(e *command.Env) *cobra.Command {
	a := verbs{e}
	cmd := &cobra.Command{
		Use: "explain HOST KIND/NAME", GroupID: command.GroupWatch, Short: "Say why a resource of a host is as it is",
		Long: `Says of one resource of a host who wants it so, where it stands, which of its fields
are not as declared, what the host tried and why that failed, and when it tries
again. All of it is what the host reported last: of one that is away, how long ago
that was is said first. steady host resources HOST lists the names.`,
		Example: "  steady explain web-1 workspace/api\n  steady explain web-1 file/etc/motd -o json",
	}
	return a.CompletesWith(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if len(args) != 2 || !strings.Contains(args[1], "/") {
			return exit.Badf("expected HOST KIND/NAME, such as web-1 workspace/api")
		}
		x, err := explain(ctx, c, args[0], args[1])
		if err != nil {
			return err
		}
		return a.Print(x, func() error { return a.showExplanation(x) })
	})), explainable)
}

// explainable completes a host, and then its resources.
func explainable(ctx context.Context, c *operator.Client, args []string, _ string) ([]string, error) {
	if len(args) == 0 {
		return retryable(ctx, c, args, "")
	}
	r, err := c.Resources(ctx, args[0])
	var names []string
	for _, x := range r.Resources {
		names = append(names, x.Kind+"/"+x.Name+"\t"+x.State)
	}
	return names, err
}

func explain(ctx context.Context, c *operator.Client, host, id string) (x explanation, err error) {
	h, err := c.Host(ctx, host)
	if err != nil {
		return x, err
	}
	r, err := c.Resources(ctx, host)
	if err != nil {
		return x, err
	}
	at := slices.IndexFunc(r.Resources, func(r operator.Resource) bool { return r.Kind+"/"+r.Name == id })
	if at < 0 {
		return x, exit.With(exit.NotFound, fmt.Errorf("host %s has no resource %s, declared or left over; steady host resources %s lists them", host, id, host))
	}
	x = explanation{Host: host, Presence: h.Presence, LastSeen: h.LastSeen, Release: h.Runs, Bundle: string(h.Current), Resource: r.Resources[at], Reports: []explained{}}
	if x.Resource.Layer == event.LayerManaged && x.Resource.Declared {
		set, err := c.ManagedResource(ctx, host, x.Resource.Kind, x.Resource.Name)
		if err != nil {
			return x, err
		}
		x.Set = &set
	}
	page, err := c.Events(ctx, operator.EventQuery{About: operator.AboutHost(host), Tail: true, Limit: explainFrom})
	if err != nil {
		return x, err
	}
	for i := range page.Events {
		e := &page.Events[i]
		if e.Type != (event.ResourceReported{}).EventType() {
			continue
		}
		one := explained{At: e.At, Received: e.Received}
		if err := json.Unmarshal(e.Body, &one.ResourceReported); err != nil {
			return x, fmt.Errorf("event %d of host %s: %w", e.HostSeq, host, err)
		}
		if one.Resource == id {
			x.Reports = append(x.Reports, one)
		}
	}
	x.Reports = x.Reports[max(0, len(x.Reports)-explainShown):]
	return x, nil
}

func (a verbs) showExplanation(x explanation) error {
	r := &x.Resource
	a.Printf("%s/%s on %s: %s", r.Kind, r.Name, x.Host, a.Screen().Paint(watch.StateColor(r.State), stateOf(*r)))
	if r.Message != "" {
		a.Printf(": %s", term.Printable(r.Message))
	}
	a.Printf("\n")
	if x.Presence != gate.Online {
		a.PrintFolded("  host:     %s, last seen %s: what follows is as old\n", x.Presence, prose.Ago(x.LastSeen, a.Wall()))
	}
	switch {
	case x.Set != nil:
		a.PrintFolded("  wanted:   by %s since %s: %s\n", term.Printable(x.Set.Actor), x.Set.SetAt, term.Printable(cmp.Or(x.Set.Reason, "no reason given")))
		if x.Set.Owner != spec.Operators {
			a.PrintFolded("  owner:    %s, which alone changes it\n", x.Set.Owner)
		}
		if x.Set.NotAfter != 0 {
			a.PrintFolded("  ends:     %s\n", x.Set.NotAfter)
		}
	case r.Next:
		a.PrintFolded("  wanted:   by the bundle that the host runs next. Next: steady why %s\n", x.Host)
	case r.Declared:
		a.PrintFolded("  wanted:   by release %s, bundle %s\n", cmp.Or(x.Release, "unknown"), command.Short(x.Bundle))
	default:
		a.PrintFolded("  wanted:   by nobody any more\n")
	}
	if r.Since != 0 {
		a.PrintFolded("  since:    %s\n", prose.Ago(r.Since, a.Wall()))
	}
	if tries := triesOf(*r); tries != "" {
		a.PrintFolded("  attempts: %s. At once: steady host retry %s %s/%s\n", tries, x.Host, r.Kind, r.Name)
	}
	if len(r.Differences) > 0 {
		var rows [][]string
		for _, d := range r.Differences {
			rows = append(rows, []string{"  " + d.Field, string(d.Class), string(d.Cause), d.Observed, d.Desired, d.Why})
		}
		if err := a.Details([]string{"  field", "takes", "cause", "has", "wants", "why"}, rows); err != nil {
			return err
		}
	}
	if len(x.Reports) == 0 {
		return nil
	}
	a.Printf("  reported:\n")
	var rows [][]string
	for i := range x.Reports {
		e := &x.Reports[i]
		tries := ""
		if e.Attempts > 0 {
			tries = fmt.Sprint(e.Attempts)
		}
		rows = append(rows, []string{"  " + e.Received.String(), e.State, tries, string(e.Reason), e.Message})
	}
	return a.Details([]string{"  at", "state", "tries", "reason", "detail"}, rows)
}
