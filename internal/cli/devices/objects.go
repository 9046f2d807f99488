package devices

import (
	"bytes"
	"context"
	"encoding/json"
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

// objects are the verbs on one kind.
type objects struct {
	verbs
	kind string
}

var shorts = map[string]string{
	nodeconfig.Flow:     "Flows: what one node has",
	nodeconfig.Tunnel:   "Tunnels: what an ingress, an egress and maybe a relay node have together",
	nodeconfig.Document: "Documents: the whole configuration of a device that is one object",
}

func (a objects) command() *cobra.Command {
	return command.Group(command.GroupWatch, a.kind, shorts[a.kind],
		a.examples("  steady KIND list\n  steady KIND create a -f a.yaml\n  steady KIND show a"), a.list(), a.show(), a.create(), a.edit(), a.remove(), a.restore(), a.history())
}

// examples puts the kind's name into examples.
func (a objects) examples(s string) string { return strings.ReplaceAll(s, "KIND", a.kind) }

// names completes the names of objects.
func (a objects) names(cmd *cobra.Command) *cobra.Command {
	return completed(a.verbs, cmd, func(ctx context.Context, c *operator.Client) ([]drift.ObjectRow, error) {
		return c.Objects(ctx, a.kind)
	}, func(o drift.ObjectRow) string { return o.Name })
}

func (a objects) list() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: fmt.Sprintf("List the %ss with the push status of each leg", a.kind),
		Example: a.examples("  steady KIND list\n  steady KIND list -o json"),
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.ObjectRow, error) {
		return c.Objects(ctx, a.kind)
	}, []string{a.kind, "status", "nodes", "version", "changed", "detail"}, func(o drift.ObjectRow) []string {
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
		return []string{o.Name, o.Summary.Word, strings.Join(nodes, ", "), fmt.Sprint(o.Version), prose.Ago(o.ChangedAt, a.Wall()), strings.Join(details, "; ")}
	})
}

func (a objects) show() *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use: "show NAME", Short: fmt.Sprintf("Show a %s: its legs, what each waits for, and its definition", a.kind),
		Example: a.examples("  steady KIND show a\n  steady KIND show a --version 3"),
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "the definition that it had in this version")
	return a.names(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (drift.ObjectDetail, error) {
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
		text, err := writeDefinition(o.Definition)
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
	return o.Definition, exit.Badf("version %d of %s %s is not kept; steady %s history %s lists those that are", version, o.Kind, o.Name, o.Kind, o.Name)
}

func (a objects) history() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history NAME", Short: "List the versions of a " + a.kind + ", the newest first",
		Long:    a.examples("Lists the newest 20 versions. An older one is a draft for a new one:\nsteady KIND edit NAME --from VERSION."),
		Example: a.examples("  steady KIND history a\n  steady KIND edit a --from 3"),
	}
	return a.names(command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) ([]drift.Revision, error) {
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

func (a objects) create() *cobra.Command {
	var in input
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a " + a.kind, Long: a.long(), Example: a.createExample()}
	in.flags(cmd, a.kind)
	reason := command.RequiresReason(cmd)
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		d, err := a.definition(&in)
		if err != nil {
			return err
		}
		return a.put(ctx, c, args[0], operator.SetObject{Definition: d, Create: true, AllowPortConflict: in.allowPorts, Reason: *reason}, in.dryRun)
	}))
}

func (a objects) createExample() string {
	if a.kind == nodeconfig.Tunnel {
		return "  steady tunnel create studio -f studio.yaml\n  steady tunnel create studio -f studio.yaml --dry-run"
	}
	return a.examples("  steady KIND create a --node gw-1 --set port=5004\n  steady KIND create a -f a.yaml --dry-run")
}

func (a objects) long() string {
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

func (a objects) edit() *cobra.Command {
	var in input
	var from uint64
	cmd := &cobra.Command{
		Use: "edit NAME", Short: "Change a " + a.kind + ", in your editor or with a file or single fields",
		Long: a.examples(`Opens the definition as YAML in $VISUAL, $EDITOR or vi, and sets what was saved if it
changed. With -f the file is set as it is; with --set single fields are changed,
and with --unset they are taken out; --set FIELD=null has a field be null, which is another thing.
--from opens an older version, as a draft for a new one.`),
		Example: a.examples("  steady KIND edit a\n  steady KIND edit a -f a.yaml\n  steady KIND edit a --from 3"),
	}
	in.flags(cmd, a.kind)
	if a.kind != nodeconfig.Tunnel {
		cmd.Flags().StringArrayVar(&in.unset, "unset", nil, "a field that is taken out, such as media.codec")
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "begin with the definition of this version")
	reason := command.RequiresReason(cmd)
	return a.names(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
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
func (a objects) put(ctx context.Context, c *operator.Client, name string, s operator.SetObject, dryRun bool) error {
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
		a.Printf("%s %s is defined, version %d. Its nodes are pushed to: steady %s show %s\n", a.kind, name, o.Version, a.kind, name)
		return a.legTable(o.Legs, true)
	})
}

func (a objects) preview(name string, p operator.ObjectPreview) error {
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

func (a objects) remove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "Delete a " + a.kind + " on its nodes",
		Long: `Has every node delete it. Until each has confirmed that it is gone the object stays,
being deleted; a node that has changed it meanwhile keeps it, and you are asked.`,
		Example: a.examples("  steady KIND rm a"),
	}
	reason := command.RequiresReason(cmd)
	return a.names(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.RemoveObject(ctx, a.kind, args[0], *reason); err != nil {
			return err
		}
		a.Printf("%s %s is deleted on its nodes: steady %[1]s show %[2]s until it is gone\n", a.kind, args[0])
		return nil
	}))
}

func (a objects) restore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore NAME", Short: "Take a " + a.kind + " out of the bin, to be pushed again",
		Long: `What a node never accepted, for five minutes in which it was online, is moved to the
bin, where it stays for seven days.`,
		Example: a.examples("  steady KIND restore a"),
	}
	reason := command.RequiresReason(cmd)
	return a.names(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.RestoreObject(ctx, a.kind, args[0], *reason); err != nil {
			return err
		}
		a.Printf("%s %s is pushed again: steady %[1]s show %[2]s\n", a.kind, args[0])
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
func (a objects) definition(in *input) (nodeconfig.Definition, error) {
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
func writeDefinition(d nodeconfig.Definition) (string, error) {
	w := written{Mode: d.Mode, Shared: strictyaml.Config{Raw: d.Shared}}
	for _, l := range d.Legs {
		one := &oneLeg{Node: l.Node, ID: l.ID, Config: strictyaml.Config{Raw: l.Config}}
		if nodeconfig.KindOf(l.Role) != nil { // the only one of its kind
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

// fields changes single fields of the only leg.
func (a objects) fields(in *input, d nodeconfig.Definition) (nodeconfig.Definition, error) {
	d.Legs = slices.Clone(d.Legs)
	l := &d.Legs[0]
	if in.node != "" {
		l.Node = in.node
	}
	if in.id != "" {
		l.ID = in.id
	}
	root := map[string]any{}
	if len(l.Config) > 0 {
		v, err := nodeconfig.Decode(l.Config)
		if err != nil {
			return d, err
		}
		root, _ = v.(map[string]any)
	}
	for _, s := range in.set {
		path, text, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return d, exit.Badf("--set %q: expected FIELD=VALUE", s)
		}
		v, err := nodeconfig.Decode([]byte(text))
		if err != nil {
			v = text
		}
		at, last, err := within(root, path, true)
		if err != nil {
			return d, exit.Badf("--set %q: %v", s, err)
		}
		at[last] = v
	}
	for _, path := range in.unset {
		at, last, err := within(root, path, false)
		if err != nil {
			return d, exit.Badf("--unset %q: %v", path, err)
		}
		delete(at, last)
	}
	var err error
	l.Config, err = json.Marshal(root)
	return d, err
}

// within returns the object that has the last field of a path, and the field's name. An object that
// is not there is made, also in the place of null; a value that is no object is not replaced.
func within(at map[string]any, path string, made bool) (map[string]any, string, error) {
	steps := strings.Split(path, ".")
	for i, step := range steps[:len(steps)-1] {
		v := at[step]
		next, isObject := v.(map[string]any)
		_, _, typed := nodeconfig.TypeOf(v)
		_, refers := nodeconfig.ReferenceOf(v)
		here := strings.Join(steps[:i+1], ".")
		switch {
		case v == nil && made:
			next = map[string]any{}
			at[step] = next
		case v == nil:
			return nil, "", fmt.Errorf("there is no field %s", here)
		case !isObject || typed || refers:
			return nil, "", fmt.Errorf("%s is no object: set it as a whole, as in --set '%s={...}'", here, here)
		}
		at = next
	}
	last := steps[len(steps)-1]
	if _, there := at[last]; !there && !made {
		return nil, "", fmt.Errorf("there is no field %s", path)
	}
	return at, last, nil
}

// inEditor has a person change a definition.
func (a objects) inEditor(ctx context.Context, name string, d nodeconfig.Definition) (nodeconfig.Definition, error) {
	text, err := writeDefinition(d)
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
		return d, fmt.Errorf("%w\nwhat you wrote is kept in %s; steady %s edit %s -f sets it", err, file, a.kind, name)
	}
	return out, os.RemoveAll(dir)
}
