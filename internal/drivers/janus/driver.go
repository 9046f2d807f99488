package janus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// Config says where Janus is.
type Config struct {
	// URL of its HTTP API: http://127.0.0.1:8088/janus by default.
	URL string
	// ConfigDir is the folder of its configuration files: /etc/janus by default. The driver
	// reads janus.plugin.streaming.jcfg there, with the admin_key and the secrets of
	// mountpoints, and the api_secret in janus.jcfg. It writes neither.
	ConfigDir string
}

// fresh is how long an answer about a mountpoint is used again by Snapshot while the list and
// the file have the same of it. What neither of them has is seen that much later; Apply
// compares with a new answer.
const fresh = 500 * time.Millisecond

// attempts to read file and API while neither changes.
const attempts = 5

// Driver is a nodesdk.Driver, a Reader and a Prober.
type Driver struct {
	o    Config
	file *configFile
	api  *client
	// own is the file when nothing in it was unread by Janus, which wrote or loaded it.
	own     stamp
	answers map[string]answer // by id

	mu      sync.Mutex
	strings bool                       // ids are texts
	secrets map[string]string          // by id, of mountpoints that this driver made
	plain   map[string]string          // Janus' names, by id
	ids     map[string]string          // by name here
	media   map[string]map[string]seen // by id and mid
}

// Options of Open, each with what it is for.
var Options = [][2]string{
	{"url", "of its HTTP API (default: http://127.0.0.1:8088/janus)"},
	{"config-dir", "folder of its configuration files (default: /etc/janus)"},
}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	d, err := New(Config{URL: options["url"], ConfigDir: options["config-dir"]})
	return d, Collections, err
}

// New returns a driver of a Janus, which need not run yet.
func New(o Config) (*Driver, error) {
	if o.URL == "" {
		o.URL = "http://127.0.0.1:8088/janus"
	}
	if o.ConfigDir == "" {
		o.ConfigDir = "/etc/janus"
	}
	d := &Driver{o: o, file: &configFile{path: filepath.Join(o.ConfigDir, plugin+".jcfg")},
		answers: map[string]answer{}, secrets: map[string]string{}, plain: map[string]string{}, ids: map[string]string{}, media: map[string]map[string]seen{}}
	var err error
	d.api, err = newClient(o.URL, func() string { return apiSecret(o.ConfigDir) }, d.restarted)
	return d, err
}

// mountpoint is one with what Janus runs and what its file has; nil where it has none.
type mountpoint struct {
	name, id   string
	plain      string // Janus' name of it
	secret     string
	live, file map[string]any
	fileHasID  bool
}

// Snapshot implements nodesdk.Driver.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	all, c, err := d.read(ctx, "")
	if err != nil {
		return nodesdk.State{}, err
	}
	if len(unread(all, "")) == 0 {
		d.own = c.stamp
	}
	s := nodesdk.State{Complete: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		it, err := all[name].item()
		if err != nil {
			return nodesdk.State{}, err
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// Read implements nodesdk.Reader.
func (d *Driver) Read(ctx context.Context, kind, id string) (nodesdk.Item, bool, error) {
	m, _, err := d.one(ctx, id)
	if err != nil || m == nil || kind != nodeconfig.Flow {
		return nodesdk.Item{}, false, err
	}
	it, err := m.item()
	return it, err == nil, err
}

func (d *Driver) one(ctx context.Context, name string) (*mountpoint, *content, error) {
	all, c, err := d.read(ctx, name)
	return all[name], c, err
}

// read reads the mountpoints by name, or what is needed to know the one of a name. File and
// API are of one moment: the file is the same before and after.
func (d *Driver) read(ctx context.Context, only string) (map[string]*mountpoint, *content, error) {
	for range attempts {
		c, err := d.file.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		all, err := d.mountpoints(ctx, c, only)
		if err != nil {
			return nil, nil, err
		}
		if d.file.stamp() == c.stamp {
			return all, c, nil
		}
	}
	return nil, nil, errors.New("the configuration file of Janus changes all the time")
}

// config is the object: what Janus runs, and how its file differs.
func (m *mountpoint) config() map[string]any {
	if m.live == nil {
		return overlay(m.file, map[string]any{running: false, cause: whyNot(m.file)})
	}
	out := maps.Clone(m.live)
	if m.name != m.plain {
		out["id"] = m.id
	}
	if m.file == nil {
		out["permanent"] = false
		return out
	}
	if !m.fileHasID {
		delete(out, "id") // another one at every start
	}
	if out[withheld] == true {
		return out
	}
	set, absent := map[string]any{}, []any{}
	for _, name := range differing(out, m.file) {
		switch v, there := m.file[name]; {
		case name == "enabled":
		case there:
			set[name] = v
		default:
			absent = append(absent, name)
		}
	}
	differs := map[string]any{}
	if len(set) > 0 {
		differs["set"] = set
	}
	if len(absent) > 0 {
		differs["absent"] = absent
	}
	if len(differs) > 0 {
		out[startup] = differs
	}
	return out
}

func (m *mountpoint) item() (nodesdk.Item, error) {
	raw, err := json.Marshal(m.config())
	if err != nil {
		return nodesdk.Item{}, fmt.Errorf("mountpoint %s: %w", m.name, err)
	}
	return nodesdk.Item{Kind: nodeconfig.Flow, ID: m.name, Config: raw}, nil
}

// itemOrNone is the object, nil for none.
func (m *mountpoint) itemOrNone() (*nodesdk.Item, error) {
	if m == nil {
		return nil, nil
	}
	it, err := m.item()
	return &it, err
}
