package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/status"
)

func (a verbs) attentionCmd() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "attention", GroupID: command.GroupWatch, Short: "List what needs a person, the worst first",
		Long: `Lists all of the fleet that needs a person: rollouts that are halted or reverted, with the
host that failed first and why; hosts that failed, are degraded, behind their channel or
out of contact; drift and failed pushes of nodes; sessions; release sources; what ends soon
or fills up; and the server itself. Each item has the command that ends it. An item leaves
the list when its cause is over, or while it is acknowledged.`,
		Example: "  steady attention\n  steady attention --all\n  steady attention ack host/edge-7 --note 'waits for a new disk' --for 48h",
	}
	cmd.Flags().BoolVar(&all, "all", false, "acknowledged items as well")
	command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) (operator.Inbox, error) {
		in, err := c.Attention(ctx)
		if !all && err == nil {
			in.Items = status.Needed(in.Items)
		}
		return in, err
	}, func(in operator.Inbox) error {
		if len(in.Items) == 0 {
			a.Printf("Nothing needs you\n")
			return nil
		}
		a.showItems(in.Items, len(in.Items))
		return nil
	})
	cmd.AddCommand(a.ackCmd())
	return cmd
}

func (a verbs) ackCmd() *cobra.Command {
	var note string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "ack KIND/NAME", Short: "Say that you know of an item, so that it is not counted",
		Long: `Takes an item off the list, and out of the exit code of steady status --check, as long as
its cause stays the same, or for the time of --for. steady attention --all shows it.`,
		Example: "  steady attention ack session/lab --note 'the host is being repaired'\n  steady attention ack host/edge-7 --note 'waits for a new disk' --for 48h",
	}
	cmd.Flags().StringVar(&note, "note", "", "what is done about it, for the log (required)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long; without it as long as the cause stays the same")
	return a.CompletesWith(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		kind, name, ok := strings.Cut(args[0], "/")
		switch {
		case !ok || kind == "" || name == "":
			return exit.Badf("%q: expected KIND/NAME as steady attention lists it", args[0])
		case note == "":
			return exit.Bad(errors.New("--note is empty: say what is done about it, for the log"))
		case lasts < 0:
			return exit.Badf("--for %s: expected a time in the future, such as 8h", lasts)
		}
		ack := operator.Acknowledge{Kind: kind, Name: name, Note: note}
		if lasts > 0 {
			ack.Until = a.Wall().Add(clock.Duration(lasts.Milliseconds()))
		}
		if err := c.Acknowledge(ctx, ack); err != nil {
			return err
		}
		until := "as long as its cause stays the same"
		if ack.Until != 0 {
			until = "until " + prose.Date(ack.Until)
		}
		a.PrintFolded("%s is acknowledged %s. steady attention --all lists it\n", args[0], until)
		return nil
	}), func(ctx context.Context, c *operator.Client, args []string, _ string) (names []string, err error) {
		if len(args) > 0 {
			return nil, nil
		}
		in, err := c.Attention(ctx)
		for _, x := range status.Needed(in.Items) {
			names = append(names, x.Key()+"\t"+x.Word)
		}
		return names, err
	})
}

// showItems prints items, with the first steps of each. Items of one kind with one word are told
// together where there are many.
func (a verbs) showItems(items []status.InboxItem, most int) {
	screen := term.Of(a.Out, a.Getenv)
	shown := 0
	for _, group := range grouped(items) {
		if shown == most {
			break
		}
		shown++
		first := group[0]
		what := strings.TrimSpace(first.Kind + " " + first.Name)
		if len(group) > 1 {
			names := make([]string, len(group))
			for i := range group {
				names[i] = group[i].Name
			}
			what = prose.Count(len(group), first.Kind) + " (" + prose.Names(names, 5) + ")"
		}
		paint := term.Busy
		if first.Level == status.Critical {
			paint = term.Bad
		}
		since := ""
		if first.Since != 0 {
			since = ", " + prose.Ago(first.Since, a.Wall())
		}
		reason := first.Reason
		if len(group) > 1 {
			reason = first.Name + ": " + reason
		}
		a.PrintFolded("  %s %s%s: %s\n", screen.Paint(paint, first.Word), what, since, term.Printable(reason))
		if ack := first.Ack; ack != nil {
			a.PrintFolded("    acknowledged by %s, %s: %s\n", ack.By, prose.Ago(ack.At, a.Wall()), term.Printable(ack.Note))
			continue
		}
		if next := Steps(first.Next); next != "" {
			a.PrintFolded("    Next: %s\n", next)
		}
	}
}

// groupFrom is how many items of one kind and word are told together.
const groupFrom = 4

// grouped puts items together that differ in their names alone, in their order.
func grouped(items []status.InboxItem) (groups [][]status.InboxItem) {
	type like struct {
		kind, word string
		known      bool
	}
	count, at := map[like]int{}, map[like]int{}
	of := func(x *status.InboxItem) like { return like{x.Kind, x.Word, x.Ack != nil} }
	for i := range items {
		count[of(&items[i])]++
	}
	for i := range items {
		k := of(&items[i])
		if g, there := at[k]; there && count[k] >= groupFrom {
			groups[g] = append(groups[g], items[i])
			continue
		}
		at[k] = len(groups)
		groups = append(groups, items[i:i+1:i+1])
	}
	return groups
}

// Steps are the command lines of remedies.
func Steps(next []status.Remedy) string {
	var lines []string
	for _, r := range next {
		lines = append(lines, operator.Command(r))
	}
	return strings.Join(lines, "; or ")
}
