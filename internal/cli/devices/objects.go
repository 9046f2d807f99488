package devices

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// objects are the verbs on one kind, or, where of has a flag for it, on the kind that is named.
type objects struct {
	verbs
	kind string
	own  bool // the kind is that of --kind
}

var shorts = map[string]string{
	nodeconfig.Flow:     "Flows: what one node has",
	nodeconfig.Tunnel:   "Tunnels: what an ingress, an egress and maybe a relay node have together",
	nodeconfig.Document: "Documents: the whole configuration of a device that is one object",
	"object":            "Objects of any kind: what drivers have words of their own for",
}

func (a *objects) command() *cobra.Command {
	return command.Group(command.GroupWatch, a.kind, shorts[a.kind],
		a.examples("  steady KIND list\n  steady KIND create a -f a.yaml\n  steady KIND show a"), a.list(), a.show(), a.create(), a.edit(), a.push(), a.remove(), a.restore(), a.history())
}

// named is the kind that a command is about.
func (a *objects) named() error {
	if a.kind == "" {
		return exit.Badf("give the kind of the objects: --kind KIND, one of those that steady object kinds lists")
	}
	return nil
}

// talks is Talk for a command that is about one kind.
func (a *objects) talks(cmd *cobra.Command, do func(context.Context, *operator.Client, []string) error) *cobra.Command {
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := a.named(); err != nil {
			return err
		}
		return do(ctx, c, args)
	})
}

// examples puts the command into examples.
func (a *objects) examples(s string) string {
	if a.own {
		return strings.ReplaceAll(s, "KIND", "object --kind camera")
	}
	return strings.ReplaceAll(s, "KIND", a.kind)
}

// noun is the word for one object of the kind in help, and one is it with its article.
func (a *objects) noun() string {
	if a.own {
		return "object"
	}
	return a.kind
}

func (a *objects) one() string {
	if a.own {
		return "an object"
	}
	return "a " + a.kind
}

// names completes the names of objects.
func (a *objects) names(cmd *cobra.Command) *cobra.Command {
	return completed(a.verbs, cmd, func(ctx context.Context, c *operator.Client) ([]drift.ObjectRow, error) {
		if a.kind == "" {
			return nil, nil
		}
		all, err := c.Objects(ctx, a.kind)
		return slices.DeleteFunc(all, func(o drift.ObjectRow) bool { return o.Local }), err
	}, func(o drift.ObjectRow) string { return o.Name })
}

func (a *objects) list() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: fmt.Sprintf("List the %ss with the push status of each leg", a.noun()),
		Long: fmt.Sprintf(`Lists the %ss with the push status of each leg. One that a node has and the server does
not know is extraneous, or unadopted where it waits together with others.`, a.noun()),
		Example: a.examples("  steady KIND list\n  steady KIND list -o json"),
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.ObjectRow, error) {
		if a.kind == "" {
			return c.AllObjects(ctx)
		}
		return c.Objects(ctx, a.kind)
	}, []string{a.noun(), "status", "nodes", "version", "changed", "detail"}, func(o drift.ObjectRow) []string {
		var nodes, details []string
		for _, l := range o.Legs {
			node := l.Node
			if len(o.Legs) > 1 {
				node = l.Role + " " + l.Node + " " + l.Summary.Word
			}
			nodes = append(nodes, node)
			if d := detailOf(l); d != "" && !slices.Contains(details, d) {
				details = append(details, d)
			}
		}
		name := o.Name
		if a.own {
			name = o.Kind + " " + o.Name
		}
		return []string{name, o.Summary.Word, strings.Join(nodes, ", "), count(int(o.Version)), prose.Ago(o.ChangedAt, a.Wall()), strings.Join(details, "; ")}
	})
}

func (a *objects) show() *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show " + a.one() + ": its legs, what each waits for, and its definition",
		Example: a.examples("  steady KIND show a\n  steady KIND show a --version 3"),
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "the definition that it had in this version")
	return a.names(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (drift.ObjectDetail, error) {
		if err := a.named(); err != nil {
			return drift.ObjectDetail{}, err
		}
		o, err := c.Object(ctx, a.kind, args[0])
		if err == nil && version != 0 {
			o.Definition, err = versionOf(o, version)
		}
		return o, err
	}, func(o drift.ObjectDetail) error {
		a.Printf("%s %s, version %d, changed %s: %s\n", strings.ToUpper(a.kind[:1])+a.kind[1:], o.Name, o.Version, prose.Ago(o.ChangedAt, a.Wall()), o.Summary.Word)
		if err := a.legTable(o.Legs, true); err != nil {
			return err
		}
		for _, x := range o.Inconsistent {
			var parts []string
			for _, role := range slices.Sorted(maps.Keys(x.Values)) {
				parts = append(parts, role+" has "+x.Values[role])
			}
			a.Printf("Its legs do not agree on %s: %s\n", term.Printable(x.Field), term.Printable(strings.Join(parts, ", ")))
		}
		for _, x := range o.Respelt {
			a.Printf("Respelt by node %s: %s was asked for as %s, and it has %s, which it names as the same\n", x.Node, term.Printable(x.Field), term.Printable(x.Requested), term.Printable(cmp.Or(x.Actual, "no such field")))
		}
		text, err := writeDefinition(o.Kind, o.Definition)
		if err == nil {
			a.Printf("\n%s", text)
		}
		return err
	}))
}

func versionOf(o drift.ObjectDetail, version uint64) (nodeconfig.Definition, error) {
	for _, r := range o.History {
		if r.Version == version {
			return r.Definition, nil
		}
	}
	return o.Definition, exit.Badf("version %d of %s %s is not kept; steady %s history %s lists those that are", version, o.Kind, o.Name, nodeconfig.Command(o.Kind), o.Name)
}

func (a *objects) history() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history NAME", Short: "List the versions of " + a.one() + ", the newest first",
		Long:    a.examples("Lists the newest 20 versions. An older one is a draft for a new one:\nsteady KIND edit NAME --from VERSION."),
		Example: a.examples("  steady KIND history a\n  steady KIND edit a --from 3"),
	}
	return a.names(command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) ([]drift.Revision, error) {
		if err := a.named(); err != nil {
			return nil, err
		}
		o, err := c.Object(ctx, a.kind, args[0])
		slices.Reverse(o.History)
		return o.History, err
	}, []string{"version", "at", "origin", "by", "reason"}, func(r drift.Revision) []string {
		return []string{fmt.Sprint(r.Version), prose.Date(r.At), r.Origin, r.Actor, r.Reason}
	}))
}

// input is where a definition comes from.
type input struct {
	file, node, id     string
	set, unset         []string
	allowPorts, dryRun bool
}

func (in *input) flags(cmd *cobra.Command, kind string) {
	f := cmd.Flags()
	f.StringVarP(&in.file, "file", "f", "", "a file in YAML or JSON, - for standard input")
	if kind != nodeconfig.Tunnel {
		f.StringVar(&in.node, "node", "", "the node that has it")
		f.StringVar(&in.id, "id", "", "what the device calls it (default NAME)")
		f.StringArrayVar(&in.set, "set", nil, "a field, such as port=5004 or media.codec='\"h264\"'; a value that is no JSON is a text, and null is one")
	}
	f.BoolVar(&in.allowPorts, "allow-port-conflict", false, "set it although something else uses one of its ports")
	f.BoolVar(&in.dryRun, "dry-run", false, "say what would change on which node, and change nothing")
}

func (a *objects) create() *cobra.Command {
	var in input
	cmd := &cobra.Command{Use: "create NAME", Short: "Create " + a.one(), Long: a.long(), Example: a.createExample()}
	in.flags(cmd, a.kind)
	reason := command.RequiresReason(cmd)
	return a.PrintsData(a.talks(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		d, err := a.definition(&in)
		if err != nil {
			return err
		}
		return a.put(ctx, c, args[0], operator.SetObject{Definition: d, Create: true, AllowPortConflict: in.allowPorts, Reason: *reason}, in.dryRun)
	}))
}

func (a *objects) createExample() string {
	if a.kind == nodeconfig.Tunnel {
		return "  steady tunnel create studio -f studio.yaml\n  steady tunnel create studio -f studio.yaml --dry-run"
	}
	return a.examples("  steady KIND create a --node gw-1 --set port=5004\n  steady KIND create a -f a.yaml --dry-run")
}

func (a *objects) long() string {
	secret := "\n\nA secret does not leave its node: store it there with steady node secret NAME, and write\n{\"$secret\": \"NAME\"} in its place."
	if a.kind == nodeconfig.Tunnel {
		return `The file has the mode, what the legs share, and each leg with its node:

  mode: relay            # or direct, which has no relay
  shared: {enabled: true}
  legs:
    relay:   {node: hub,  config: {listen: ":7000"}}
    ingress: {node: gw-1, config: {listen: ":5000", upstream: "hub:7000"}}
    egress:  {node: gw-2, config: {listen: ":6000", upstream: "127.0.0.1:554"}}

The relay is pushed first, and deleted last.` + secret
	}
	return `The file has the node and the config, in the fields of its driver:

  node: gw-1
  config: {port: 5004}

The node is pushed to as soon as it is connected, and refuses the push if it has
something of that name already; then steady drift list shows both.` + secret
}

func (a *objects) edit() *cobra.Command {
	var in input
	var from uint64
	cmd := &cobra.Command{
		Use: "edit NAME", Short: "Change " + a.one() + ", in your editor or with a file or single fields",
		Long: a.examples(`Opens the definition as YAML in $VISUAL, $EDITOR or vi, and sets what was saved if it
changed. With -f the file is set as it is; with --set single fields are changed,
and with --unset they are removed; --set FIELD=null has a field be null, which is another thing.
--from opens an older version, as a draft for a new one.`),
		Example: a.examples("  steady KIND edit a\n  steady KIND edit a -f a.yaml\n  steady KIND edit a --from 3"),
	}
	in.flags(cmd, a.kind)
	if a.kind != nodeconfig.Tunnel {
		cmd.Flags().StringArrayVar(&in.unset, "unset", nil, "a field that is removed, such as media.codec")
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "begin with the definition of this version")
	reason := command.RequiresReason(cmd)
	return a.names(a.PrintsData(a.talks(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		o, err := c.Object(ctx, a.kind, args[0])
		if err != nil {
			return err
		}
		d := o.Definition
		if from != 0 {
			if d, err = versionOf(o, from); err != nil {
				return err
			}
		}
		switch {
		case in.file != "":
			d, err = a.definition(&in)
		case in.node != "" || in.id != "" || len(in.set)+len(in.unset) > 0:
			d, err = a.fields(&in, d)
		default:
			d, err = a.inEditor(ctx, o.Name, d)
		}
		if err != nil {
			return err
		}
		return a.put(ctx, c, o.Name, operator.SetObject{Definition: d, Version: o.Version, AllowPortConflict: in.allowPorts, Reason: *reason}, in.dryRun)
	})))
}

// put sets a definition, or says what that would come to.
func (a *objects) put(ctx context.Context, c *operator.Client, name string, s operator.SetObject, dryRun bool) error {
	if dryRun {
		p, err := c.PreviewObject(ctx, a.kind, name, s)
		if err != nil {
			return err
		}
		return a.Print(p, func() error { return a.preview(name, p) })
	}
	o, err := c.SetObject(ctx, a.kind, name, s)
	if err != nil {
		return err
	}
	return a.Print(o, func() error {
		a.warn(o.Ports)
		what := fmt.Sprintf("is defined, version %d. Its nodes are pushed to", o.Version)
		switch {
		case o.Unchanged && o.Requested > 0:
			what = fmt.Sprintf("is defined like that already, version %d, and nothing of it was changed. What failed of it is pushed again now", o.Version)
		case o.Unchanged:
			what = fmt.Sprintf("is defined like that already, version %d: nothing was changed, and nothing is pushed again", o.Version)
		}
		a.Printf("%s %s %s: steady %s show %s\n", a.kind, name, what, nodeconfig.Command(a.kind), name)
		return a.legTable(o.Legs, true)
	})
}

func (a *objects) preview(name string, p operator.ObjectPreview) error {
	a.warn(p.Ports)
	for _, l := range p.Legs {
		a.Printf("Node %s (%s):", l.Node, l.Role)
		if len(l.Fields) == 0 {
			a.Printf(" no field changes\n")
		} else {
			a.Printf("\n")
		}
		for _, f := range l.Fields {
			a.Printf("  %s: %s -> %s\n", term.Printable(f.Field), valueOf(f.Actual), valueOf(f.Desired))
		}
		for _, p := range l.Problems {
			a.Printf("  REFUSED by the device: %s\n", term.Printable(strings.TrimPrefix(p.Field+": "+p.Message, ": ")))
		}
		if l.Unasked != "" {
			a.Printf("  %s\n", term.Printable(l.Unasked))
		}
		if l.Checked && len(l.Problems) == 0 {
			a.Printf("  the device would accept it\n")
		}
		if l.Wait != nil {
			a.Printf("  waits: %s\n", term.Printable(l.Wait.Message))
		}
	}
	a.Printf("Nothing was changed: without --dry-run, %s %s is set\n", a.kind, name)
	return nil
}

func valueOf(v *string) string {
	if v == nil {
		return "(not set)"
	}
	return prose.Line(*v)
}

func (a *objects) remove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "Delete " + a.one() + " on its nodes",
		Long: `Has every node delete it. Until each has confirmed that it is gone the object stays,
being deleted; a node that has changed it meanwhile keeps it, and you are asked.`,
		Example: a.examples("  steady KIND rm a"),
	}
	reason := command.RequiresReason(cmd)
	return a.names(a.talks(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.RemoveObject(ctx, a.kind, args[0], *reason); err != nil {
			return err
		}
		a.Printf("%s %s is deleted on its nodes: steady %s show %s until it is gone\n", a.kind, args[0], nodeconfig.Command(a.kind), args[0])
		return nil
	}))
}

// written is a definition as people write it.
type written struct {
	Mode   string             `yaml:"mode,omitempty"`
	Shared strictyaml.Config  `yaml:"shared,omitempty"`
	Legs   map[string]*oneLeg `yaml:"legs,omitempty"`
	Alone  oneLeg             `yaml:",inline"`
}

type oneLeg struct {
	Node   string            `yaml:"node,omitempty"`
	ID     string            `yaml:"id,omitempty"`
	Config strictyaml.Config `yaml:"config,omitempty"`
}

// definition reads one from a file, or from flags.
func (a *objects) definition(in *input) (nodeconfig.Definition, error) {
	if in.file == "" {
		if in.node == "" {
			return nodeconfig.Definition{}, exit.Badf("name a file with -f, or the node with --node and fields with --set")
		}
		return a.fields(in, nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: a.kind}}})
	}
	raw, err := a.Input(in.file, nodeconfig.MaxConfig*4)
	if err != nil {
		return nodeconfig.Definition{}, err
	}
	return readDefinition(a.kind, in.file, raw)
}

func readDefinition(kind, file string, raw []byte) (d nodeconfig.Definition, err error) {
	var w written
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&w); err != nil {
		return d, exit.Badf("%s: %v", file, err)
	}
	if len(w.Legs) == 0 {
		w.Legs = map[string]*oneLeg{kind: &w.Alone}
	}
	d.Mode, d.Shared = w.Mode, w.Shared.Raw
	for _, role := range slices.Sorted(maps.Keys(w.Legs)) {
		l := w.Legs[role]
		if l == nil {
			return d, exit.Badf("%s: leg %s is empty", file, role)
		}
		d.Legs = append(d.Legs, nodeconfig.Leg{Role: role, Node: l.Node, ID: l.ID, Config: l.Config.Raw})
	}
	return d, nil
}

// writeDefinition is what readDefinition reads.
func writeDefinition(kind string, d nodeconfig.Definition) (string, error) {
	w := written{Mode: d.Mode, Shared: strictyaml.Config{Raw: d.Shared}}
	for _, l := range d.Legs {
		one := &oneLeg{Node: l.Node, ID: l.ID, Config: strictyaml.Config{Raw: l.Config}}
		if l.Role == kind { // the only one
			w.Alone = *one
			continue
		}
		if w.Legs == nil {
			w.Legs = map[string]*oneLeg{}
		}
		w.Legs[l.Role] = one
	}
	out, err := yaml.Marshal(w)
	return string(out), err
}

// inEditor has a person change a definition.
func (a *objects) inEditor(ctx context.Context, name string, d nodeconfig.Definition) (nodeconfig.Definition, error) {
	text, err := writeDefinition(a.kind, d)
	if err != nil {
		return d, err
	}
	dir, err := os.MkdirTemp("", "steady-edit-")
	if err != nil {
		return d, err
	}
	file := filepath.Join(dir, a.kind+"."+name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return d, err
	}
	if err := a.Editor(ctx, file); err != nil {
		return d, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	out, err := readDefinition(a.kind, file, raw)
	if err != nil {
		return d, fmt.Errorf("%w\nwhat you wrote is kept in %s; steady %s edit %s -f sets it", err, file, nodeconfig.Command(a.kind), name)
	}
	return out, os.RemoveAll(dir)
}
