// Package devices has the verbs on nodes, on the objects that they have, and on drift.
package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
)

type verbs struct{ *command.Env }

// Node returns the command for nodes; more are commands that need no server.
func Node(e *command.Env, more ...*cobra.Command) *cobra.Command {
	a := verbs{e}
	return command.Group(command.GroupWatch, "node", "Nodes: devices that own their configuration",
		"  steady node token gw-1\n  steady node list\n  steady node show gw-1",
		append([]*cobra.Command{a.nodeList(), a.nodeShow(), a.nodeReconcile(), a.nodePush(), a.nodeResume(), a.nodeAdopt(), a.nodeDismiss(), a.nodeRetire(), a.nodeMachine()}, append(runVerbs(e), more...)...)...)
}

// Objects returns a command for each kind that every fleet has, and one for the kinds of drivers.
func Objects(e *command.Env) (out []*cobra.Command) {
	for i := range nodeconfig.Kinds {
		out = append(out, (&objects{verbs{e}, nodeconfig.Kinds[i].Name, false}).command())
	}
	return append(out, object(e))
}

// completed has arguments of a command be completed with the names in a list.
func completed[T any](a verbs, cmd *cobra.Command, list func(context.Context, *operator.Client) ([]T, error), name func(T) string) *cobra.Command {
	return a.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, _ []string, _ string) ([]string, error) {
		all, err := list(ctx, c)
		var names []string
		for _, x := range all {
			names = append(names, name(x))
		}
		return names, err
	})
}

// nodeNames completes the names of nodes.
func (a verbs) nodeNames(cmd *cobra.Command) *cobra.Command {
	return completed(a, cmd, func(ctx context.Context, c *operator.Client) ([]drift.NodeRow, error) { return c.Nodes(ctx) }, func(n drift.NodeRow) string { return n.Name })
}

func (a verbs) nodeList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the nodes, with the push status of what they have and their drift",
		Long: `Lists the nodes. PUSHED counts the objects, and legs of tunnels, that the node
acknowledged, WAITING those that wait or are under way, FAILED those that it refused.
DRIFT counts the open episodes; steady drift list shows them.`,
		Example: "  steady node list\n  steady node list -o json",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.NodeRow, error) {
		return c.Nodes(ctx)
	},
		[]string{"node", "status", "since", "driver", "pushed", "waiting", "failed", "drift", "problem"}, func(n drift.NodeRow) []string {
			return []string{n.Name, n.Summary.Word, prose.Ago(n.Since, a.Wall()), n.Driver, count(n.Legs[drift.Pushed]), count(n.Legs[drift.Pending] + n.Legs[drift.Pushing]), count(n.Legs[drift.Failed]), driftOf(n), problemOf(n)}
		})
}

// count is a number in a table; nothing stands for none.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func driftOf(n drift.NodeRow) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(n.Drift)) {
		parts = append(parts, fmt.Sprintf("%d %s", n.Drift[kind], kind))
	}
	if n.Conflicts > 0 {
		parts = append(parts, prose.Count(n.Conflicts, "conflict"))
	}
	if n.ToAdopt > 0 {
		parts = append(parts, fmt.Sprintf("%d to adopt", n.ToAdopt))
	}
	return strings.Join(parts, ", ")
}

func problemOf(n drift.NodeRow) string {
	return n.Summary.Reason
}

func (a verbs) nodeShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NODE", Short: "Show a node: what is pushed to it, its drift, and what waits for a decision",
		Example: "  steady node show gw-1\n  steady node show gw-1 -o json",
	}
	return a.nodeNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (drift.NodeDetail, error) {
		return c.Node(ctx, args[0])
	}, a.showNode))
}

func (a verbs) showNode(n drift.NodeDetail) error {
	a.Printf("Node %s is %s", n.Name, n.Summary.Word)
	if n.Summary.Reason != "" {
		a.Printf(": %s", term.Printable(n.Summary.Reason))
	}
	a.Printf("\n")
	if n.Driver != "" {
		a.Printf("Driver %s, %s; registered %s, compared %s, %s on it\n", term.Printable(n.Driver), term.Printable(n.Version), prose.Ago(n.Registered, a.Wall()), prose.Ago(n.ComparedAt, a.Wall()), prose.Count(n.Reported, "object"))
	}
	if n.Problem != "" {
		a.Printf("Its last report or connection was refused: %s; steady events --about node/%s shows why\n", term.Printable(n.Problem), n.Name)
	}
	if n.Paused != nil {
		a.Printf("Nothing is pushed. Next: steady node resume %s --push pushes again what it lost; steady node resume %[1]s reports it as drift\n", n.Name)
	}
	if n.Adoption != nil {
		a.Printf("%s that the server does not know. Next: steady node adopt %s ingests them all; steady node dismiss %[2]s makes each an episode of drift\n", prose.Count(len(n.Adoption.Objects), "object"), n.Name)
		for _, x := range n.Adoption.Objects[:min(len(n.Adoption.Objects), 20)] {
			a.Printf("  %s %s\n", x.Kind, x.ID)
		}
	}
	if err := a.legTable(n.Objects, false); err != nil || len(n.Episodes) == 0 {
		return err
	}
	a.Printf("\n")
	return a.episodeTable(n.Episodes)
}

// legTable lists legs with their push status.
func (a verbs) legTable(legs []drift.LegRow, ofObject bool) error {
	if len(legs) == 0 {
		a.Printf("Nothing is defined for it. Next: steady flow create NAME --node NODE, or another kind that steady object kinds lists\n")
		return nil
	}
	header := []string{"object", "leg", "status", "pushed", "detail"}
	if ofObject {
		header[0] = "node"
	}
	var rows [][]string
	for _, l := range legs {
		what := l.Kind + " " + l.Name
		if l.Name == "" {
			what = l.Kind + " " + l.ID + " (being deleted)"
		}
		if ofObject {
			what = l.Node
		}
		role := l.Role
		if role == l.Kind {
			role = ""
		}
		rows = append(rows, []string{what, role, l.Summary.Word, prose.Ago(l.PushedAt, a.Wall()), detailOf(l)})
	}
	return a.Table(header, rows)
}

// detailOf says what there is to say about a leg.
func detailOf(l drift.LegRow) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if l.Removed {
		add("being deleted")
	}
	if l.Wait == nil || l.Wait.Code != drift.WaitsInBin { // which has the error
		add(l.Error)
	}
	if l.Wait != nil && l.Wait.Code != drift.WaitsRetry {
		add(l.Wait.Message)
		if l.Wait.Next != "" {
			add("Next: " + l.Wait.Next)
		}
	}
	if l.Drift != "" && l.Episode == "" { // it waits to be adopted
		add(l.Drift + " on the node. Next: steady node adopt " + l.Node)
	} else if l.Drift != "" && (l.Wait == nil || l.Wait.Code != drift.WaitsConflict) {
		add(l.Drift + " on the node. Next: steady drift show " + l.Episode)
	}
	if l.Summary.Word == drift.WordNotInEffect { // the column of the status has the word
		add(l.Summary.Reason)
	} else {
		add(strings.TrimSpace(l.Effect + " " + l.Detail))
	}
	return strings.Join(parts, "; ")
}

func (a verbs) nodeReconcile() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reconcile NODE", Short: "Read and compare the configuration of a node now",
		Example: "  steady node reconcile gw-1",
	}
	return a.nodeNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.ReconcileNode(ctx, args[0]); err != nil {
			return err
		}
		a.Printf("Node %s is read and compared. What comes of it: steady node show %[1]s\n", args[0])
		return nil
	}))
}

func (a verbs) nodeResume() *cobra.Command {
	var push bool
	cmd := &cobra.Command{
		Use: "resume NODE", Short: "Have a paused node go on",
		Long: `A node is paused when the server cannot know what is meant: it was set up anew, it
reports nothing of what it had, or it applied more than the server's log has.

Without --push what differs is reported as drift, and you decide about each. With
--push the server pushes again what the node lost; what the node has otherwise is
reported as a conflict and not overwritten.`,
		Example: "  steady node resume gw-1\n  steady node resume gw-1 --push --reason 'new hardware'",
	}
	cmd.Flags().BoolVar(&push, "push", false, "push again what the node lost")
	reason := command.RequiresReason(cmd)
	return a.nodeNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.ResumeNode(ctx, args[0], operator.Resume{Push: push, Reason: *reason}); err != nil {
			return err
		}
		a.Printf("Node %s goes on. What comes of it: steady node show %[1]s\n", args[0])
		return nil
	}))
}

func (a verbs) nodeAdopt() *cobra.Command {
	cmd := &cobra.Command{
		Use: "adopt NODE [KIND/ID...]", Short: "Ingest the objects that a node had before the server knew it",
		Long: `A node that is new to the server usually has a configuration already. The server asks
about all of it at once. Without names every object is ingested: the server has it as
the node has it, and nothing on the node changes. steady drift undo takes it back.`,
		Example: "  steady node adopt gw-1\n  steady node adopt gw-1 flow/camera-1 flow/camera-2",
		Args:    cobra.MinimumNArgs(1),
	}
	reason := command.RequiresReason(cmd)
	return a.nodeNames(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		in := operator.Adopt{Reason: *reason}
		for _, arg := range args[1:] {
			kind, id, _ := strings.Cut(arg, "/")
			in.Objects = append(in.Objects, drift.ObjectRef{Kind: kind, ID: id})
		}
		out, err := c.AdoptObjects(ctx, args[0], in)
		if err != nil {
			return err
		}
		return a.Print(out, func() error { return a.outcomes(out, false) })
	})))
}

func (a verbs) nodeDismiss() *cobra.Command {
	return a.nodeVerb(&cobra.Command{Use: "dismiss NODE", Short: "Decide about the objects of a new node one by one: each becomes an episode of drift", Example: "  steady node dismiss gw-1"},
		(*operator.Client).DismissAdoption, "The objects of node %s are listed by steady drift list --node %[1]s\n")
}

func (a verbs) nodeRetire() *cobra.Command {
	return a.nodeVerb(&cobra.Command{Use: "retire NODE", Short: "End the identity of a node that is gone for good",
		Long: `Refuses the node's key and tokens from now on, and closes its connection. What is
defined for it stays, waiting, until it is removed or a new token brings the node back.`,
		Example: "  steady node retire gw-1 --reason sold"},
		(*operator.Client).RetireNode, "Node %s is retired\n")
}

func (a verbs) nodeMachine() *cobra.Command {
	cmd := &cobra.Command{
		Use: "machine NODE [MACHINE]", Short: "Say on which machine a node is",
		Long: `Nodes of one machine share its ports: a port that another one of it listens on is refused.
Without this a node that says itself that it is there only has the server warn. Without
MACHINE nothing is known any more.`,
		Example: "  steady node machine gw-1 rack-7\n  steady node machine gw-1",
		Args:    cobra.RangeArgs(1, 2),
	}
	reason := command.RequiresReason(cmd)
	return a.nodeNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		in := operator.PlaceNode{Reason: *reason}
		if len(args) > 1 {
			in.Machine = args[1]
		}
		if err := c.PlaceNode(ctx, args[0], in); err != nil {
			return err
		}
		if in.Machine == "" {
			a.Printf("The machine of node %s is not known any more\n", args[0])
		} else {
			a.Printf("Node %s is on machine %s\n", args[0], in.Machine)
		}
		return nil
	}))
}

func (a verbs) nodeVerb(cmd *cobra.Command, do func(c *operator.Client, ctx context.Context, node, reason string) error, done string) *cobra.Command {
	reason := command.RequiresReason(cmd)
	return a.nodeNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := do(c, ctx, args[0], *reason); err != nil {
			return err
		}
		a.Printf(done, args[0])
		return nil
	}))
}

// warn prints which ports something else listens on.
func (a objects) warn(ports []string) {
	for _, port := range ports {
		a.Printf("Warning: %s\n", term.Printable(port))
	}
}
