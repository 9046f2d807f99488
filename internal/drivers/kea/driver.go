// Package kea drives the DHCPv4 server of ISC Kea through its control agent: the whole
// configuration is one document, which Kea tests before it is set.
package kea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// root is the member of all that Kea's configuration stands in, and the name of the document.
const root = "Dhcp4"

// Options of Open, each with what it is for.
var Options = [][2]string{
	{"url", "of the control agent, as http://127.0.0.1:8000"},
	{"user", "of the control agent, if it asks for one"},
	{"password-file", "file with the user's password"},
	{"file", "Kea's file, if on this machine: edits that Kea has not read are not overwritten"},
	{"local", "members of Dhcp4 that are the machine's and no part of the document, with commas"},
}

// Driver is a nodesdk.Driver.
type Driver struct {
	api   *base.HTTP
	file  string
	local []string
	own   string // digest of the file as Kea has read or written it
}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	api, err := base.NewHTTP(base.Options{URL: options["url"], User: options["user"], PasswordFile: options["password-file"]})
	if err != nil {
		return nil, nil, err
	}
	d := &Driver{api: api, file: options["file"], local: []string{"control-socket"}}
	for _, name := range base.List(options["local"]) {
		if !slices.Contains(d.local, name) {
			d.local = append(d.local, name)
		}
	}
	return d, []nodesdk.Collection{{
		Kind:    nodeconfig.Document,
		Sets:    map[string]string{"subnet4": "subnet", "shared-networks": "name", "shared-networks/*/subnet4": "subnet"},
		Secrets: []string{"lease-database/password", "hosts-database/password", "hosts-databases/*/password", "config-control/config-databases/*/password"},
	}}, nil
}

// answer is one of a server to a command.
type answer struct {
	Result    int             `json:"result"`
	Text      string          `json:"text"`
	Arguments json.RawMessage `json:"arguments"`
}

// commandError is that Kea refuses a command.
type commandError struct{ command, text string }

func (e *commandError) Error() string { return "kea answers " + e.command + " with: " + e.text }

// command sends one to the DHCPv4 server.
func (d *Driver) command(ctx context.Context, name string, arguments map[string]any, out any) error {
	req := map[string]any{"command": name, "service": []string{"dhcp4"}}
	if arguments != nil {
		req["arguments"] = arguments
	}
	var answers []answer
	if err := d.api.Do(ctx, "POST", nil, req, &answers); err != nil {
		return err
	}
	if len(answers) != 1 {
		return fmt.Errorf("the control agent gives %d answers to %s", len(answers), name)
	}
	if a := answers[0]; a.Result != 0 {
		return &commandError{name, a.Text}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answers[0].Arguments, out); err != nil {
		return fmt.Errorf("kea's answer to %s is not as expected: %w", name, err)
	}
	return nil
}

// get reads the running configuration, with its hash where this version has one (2.4 has).
func (d *Driver) get(ctx context.Context) (config map[string]any, hash string, err error) {
	var out struct {
		Dhcp4 json.RawMessage
		Hash  string `json:"hash"`
	}
	if err := d.command(ctx, "config-get", nil, &out); err != nil {
		return nil, "", err
	}
	v, err := nodeconfig.Decode(out.Dhcp4)
	if err != nil {
		return nil, "", fmt.Errorf("the configuration of Kea: %w", err)
	}
	config, is := v.(map[string]any)
	if !is || len(config) == 0 {
		return nil, "", errors.New("kea answers config-get without a configuration")
	}
	return config, out.Hash, nil
}

// item is the document, nil where Kea has only its defaults.
func (d *Driver) item(config map[string]any, hash string) (*nodesdk.Item, error) {
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	it := d.Normalize(nodesdk.Item{Kind: nodeconfig.Document, ID: root, Config: raw})
	if string(it.Config) == "{}" {
		return nil, nil
	}
	it.Revision = hash
	return &it, nil
}

// Snapshot implements nodesdk.Driver.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	config, hash, err := d.get(ctx)
	if err != nil {
		return nodesdk.State{}, err
	}
	it, err := d.item(config, hash)
	if err != nil {
		return nodesdk.State{}, err
	}
	if d.file != "" { // noted while Kea runs what it read: somebody's command may follow
		_, _ = d.hasRead(ctx, config) // a file that cannot be read refuses changes
	}
	s := nodesdk.State{Complete: true, Revision: hash}
	if it != nil {
		s.Items = append(s.Items, *it)
	}
	return s, nil
}

// target is the configuration that Kea is to have: the document, with what belongs to the
// machine as it runs.
func (d *Driver) target(op nodesdk.Op, now map[string]any) (map[string]any, error) {
	m := map[string]any{}
	if !op.Delete {
		var err error
		if m, err = base.Object(op.Config); err != nil {
			return nil, err
		}
		if op.ID != root {
			return nil, base.Invalid("", "Kea has one document, %s", root)
		}
	}
	for _, name := range d.local {
		if _, there := m[name]; there {
			return nil, base.Invalid(name, "it belongs to the machine, and is no part of the document")
		}
		if v, there := now[name]; there {
			m[name] = v
		}
	}
	return map[string]any{root: completed(m)}, nil
}

// Apply implements nodesdk.Driver. Kea compares nothing: what somebody changes between the
// driver's own comparison and its command, some milliseconds, is not seen.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	before, hash, err := d.get(ctx)
	if err != nil {
		return err
	}
	now, err := d.item(before, hash)
	if err != nil {
		return err
	}
	if op.ID != root {
		now = nil
	}
	if moved, err := base.Moved(d, now, op.Was); err != nil {
		return err
	} else if moved {
		return nodesdk.ErrConflict
	}
	if op.Delete && now == nil {
		return nil
	}
	to, err := d.target(op, before)
	if err != nil {
		return err
	}
	if problems, err := d.test(ctx, to); err != nil {
		return err
	} else if len(problems) > 0 {
		return &nodesdk.InvalidError{Code: "invalid", Problems: problems}
	}
	if err := d.unread(ctx, before); err != nil {
		return err
	}
	if err := d.command(ctx, "config-set", to, nil); err != nil {
		return err
	}
	err = d.command(ctx, "config-write", nil, nil)
	if err == nil {
		if raw, err := os.ReadFile(d.file); d.file != "" && err == nil { // without it the next edit is asked about
			d.own = digest(raw)
		}
		return nil
	}
	if back := d.command(context.WithoutCancel(ctx), "config-set", map[string]any{root: before}, nil); back != nil {
		return fmt.Errorf("%w; and what was there before could not be set again: %w", err, back)
	}
	return fmt.Errorf("%w; Kea has what it had before", err)
}

var position = regexp.MustCompile(`\(<wire>:\d+:(\d+)\)`)

// test has Kea check a configuration. A problem has its position: the field where the column
// is known, and the column of Kea's own text.
func (d *Driver) test(ctx context.Context, to map[string]any) ([]nodesdk.Problem, error) {
	err := d.command(ctx, "config-test", to, nil)
	var refused *commandError
	if !errors.As(err, &refused) {
		return nil, err
	}
	p := nodesdk.Problem{Message: refused.text}
	if at := position.FindStringSubmatch(refused.text); at != nil {
		if column, err := strconv.Atoi(at[1]); err == nil {
			p.Field = fieldAt(to, column)
			p.Message = strings.TrimSpace(strings.Replace(refused.text, at[0], "(line 1, column "+strconv.Itoa(column+1)+" of the command)", 1))
		}
	}
	return []nodesdk.Problem{p}, nil
}

// Validate implements nodesdk.Validator.
func (d *Driver) Validate(ctx context.Context, it nodesdk.Item) ([]nodesdk.Problem, error) {
	now, _, err := d.get(ctx)
	if err != nil {
		return nil, err
	}
	to, err := d.target(nodesdk.Op{Kind: it.Kind, ID: it.ID, Config: it.Config}, now)
	if invalid := (*nodesdk.InvalidError)(nil); errors.As(err, &invalid) {
		return invalid.Problems, nil
	}
	if err != nil {
		return nil, err
	}
	return d.test(ctx, to)
}
