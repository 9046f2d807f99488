package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Config says where Caddy is.
type Config struct {
	// URL of its admin API: http://127.0.0.1:2019 by default, or unix:///path.
	URL string
	// Command is Caddy's program, for its dry run: caddy by default. Without it an object is
	// not validated beforehand.
	Command string
}

// Collections are what the driver's objects are.
var Collections = []nodesdk.Collection{{
	Kind:  nodeconfig.Flow,
	Sets:  map[string]string{"listen": ""},
	Ports: []string{"listen"},
	// Those that the Caddyfile has, in a site and in a handle block of it. Redact hides those
	// that stand elsewhere too.
	Secrets: []string{
		"routes/*/handle/*/providers/http_basic/accounts/*/password", "routes/*/handle/*/routes/*/handle/*/providers/http_basic/accounts/*/password",
		"routes/*/handle/*/providers/http_basic/accounts/*/salt", "routes/*/handle/*/routes/*/handle/*/providers/http_basic/accounts/*/salt",
	},
}}

// place is where the servers stand.
var place = []string{"apps", "http", "servers"}

// Driver is a nodesdk.Driver, a Reader, a Redactor and a Validator.
type Driver struct {
	o   Config
	api *client
}

// Options of Open, each with what it is for.
var Options = [][2]string{
	{"url", "of its admin API, also unix:///path (default: http://127.0.0.1:2019)"},
	{"command", "Caddy's program, which validates (default: caddy)"},
}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	d, err := New(Config{URL: options["url"], Command: options["command"]})
	return d, Collections, err
}

// New returns a driver of a Caddy, which need not run yet.
func New(o Config) (*Driver, error) {
	if o.URL == "" {
		o.URL = "http://127.0.0.1:2019"
	}
	if o.Command == "" {
		o.Command = "caddy"
	}
	api, err := newClient(o.URL)
	if err != nil {
		return nil, err
	}
	return &Driver{o: o, api: api}, nil
}

// Snapshot implements nodesdk.Driver. A Caddy without a configuration has no servers.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	whole, revision, err := d.api.get(ctx, root)
	if err != nil {
		return nodesdk.State{}, err
	}
	at, depth, err := descend(whole)
	if err != nil {
		return nodesdk.State{}, err
	}
	s := nodesdk.State{Complete: true, Revision: revision}
	if depth < len(place) {
		return s, nil
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		s.Items = append(s.Items, nodesdk.Item{Kind: nodeconfig.Flow, ID: name, Config: at[name]})
	}
	return s, nil
}

// descend goes to the servers as far as there is a way.
func descend(whole json.RawMessage) (at map[string]json.RawMessage, depth int, err error) {
	for {
		var next map[string]json.RawMessage
		if err := json.Unmarshal(whole, &next); err != nil {
			return nil, depth, fmt.Errorf("caddy has something else than an object at %s", root+strings.Join(place[:depth], "/"))
		}
		at = next
		if depth == len(place) || isNull(at[place[depth]]) {
			return at, depth, nil
		}
		whole = at[place[depth]]
		depth++
	}
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// Read implements nodesdk.Reader. The revision is the ETag, also of what is not there.
func (d *Driver) Read(ctx context.Context, kind, id string) (nodesdk.Item, bool, error) {
	it := nodesdk.Item{Kind: kind, ID: id}
	if kind != nodeconfig.Flow {
		return it, false, nil
	}
	path, err := pathOf(id)
	if err != nil { // it stands nowhere by itself
		return d.readAmongAll(ctx, it)
	}
	raw, etag, err := d.api.get(ctx, path)
	if errors.As(err, new(*apiError)) { // no way there, which the whole shows
		return d.readAmongAll(ctx, it)
	}
	it.Config, it.Revision = raw, etag
	return it, err == nil && !isNull(raw), err
}

func (d *Driver) readAmongAll(ctx context.Context, it nodesdk.Item) (nodesdk.Item, bool, error) {
	s, err := d.Snapshot(ctx)
	if err != nil {
		return it, false, err
	}
	i := slices.IndexFunc(s.Items, func(o nodesdk.Item) bool { return o.ID == it.ID })
	if i < 0 {
		return it, false, nil
	}
	return s.Items[i], true, nil
}

// pathOf is where a server stands. Caddy takes a slash apart even if it is escaped, and reads
// no ETag of a path with a space.
func pathOf(id string) (string, error) {
	if strings.ContainsAny(id, "/ ") || id == "." || id == ".." || id == "..." {
		return "", base.Invalid("", "Caddy's API cannot address a server of the name %q", id)
	}
	return root + strings.Join(place, "/") + "/" + url.PathEscape(id), nil
}

// Apply implements nodesdk.Driver.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	path, err := pathOf(op.ID)
	if err != nil {
		return err
	}
	switch {
	case op.Was != nil && op.Delete:
		return d.answer(d.api.change(ctx, http.MethodDelete, path, op.Was.Revision, nil), op)
	case op.Was != nil:
		return d.answer(d.api.change(ctx, http.MethodPatch, path, op.Was.Revision, op.Config), op)
	}
	it, there, err := d.Read(ctx, op.Kind, op.ID)
	switch {
	case err != nil:
		return err
	case there:
		return nodesdk.ErrConflict
	case op.Delete:
		return nil
	case it.Revision == "":
		return d.createPlace(ctx, op)
	}
	return d.answer(d.api.change(ctx, http.MethodPut, path, it.Revision, op.Config), op)
}

// createPlace creates the first server, with what leads to it.
func (d *Driver) createPlace(ctx context.Context, op nodesdk.Op) error {
	whole, etag, err := d.api.get(ctx, root)
	if err != nil {
		return err
	}
	at, depth, err := descend(whole)
	if err != nil {
		return err
	}
	if depth == len(place) {
		return nodesdk.ErrConflict // somebody else made it meanwhile
	}
	value := any(map[string]json.RawMessage{op.ID: op.Config})
	for i := len(place) - 1; i > depth; i-- {
		value = map[string]any{place[i]: value}
	}
	method, path := http.MethodPut, root+strings.Join(place[:depth+1], "/")
	if _, isThere := at[place[depth]]; isThere { // as null
		method = http.MethodPatch
	}
	if isNull(whole) {
		method, path, value = http.MethodPost, root, map[string]any{place[0]: value}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("server %s: %w", op.ID, err)
	}
	return d.answer(d.api.change(ctx, method, path, etag, raw), op)
}

// answer is what an error of Caddy means: it either has the whole change or nothing of it.
func (d *Driver) answer(err error, op nodesdk.Op) error {
	var e *apiError
	switch {
	case !errors.As(err, &e):
		return err
	case e.status == http.StatusPreconditionFailed, strings.Contains(e.text, "key already exists"), e.status == http.StatusNotFound:
		return nodesdk.ErrConflict
	case e.status == http.StatusBadRequest, strings.Contains(e.text, "loading new config"):
		return refusal(e.text, op.Config)
	}
	return err
}

// Normalize implements nodesdk.Driver. Caddy keeps a configuration as it was written; an
// address of the network tcp has two spellings.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	it = nodesdk.Fold{Numbers: true}.Item(it) // Caddy keeps its JSON with floats alone, and null as it is
	v, err := nodeconfig.Decode(it.Config)
	m, is := v.(map[string]any)
	if err != nil || !is {
		return it
	}
	listen, is := m["listen"].([]any)
	if !is {
		return it
	}
	for i, a := range listen {
		if s, is := a.(string); is {
			listen[i] = strings.TrimPrefix(s, "tcp/")
		}
	}
	if raw, err := json.Marshal(m); err == nil {
		it.Config = raw
	}
	return it
}
