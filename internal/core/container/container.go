// Package container holds what is declared of containers on a host: networks,
// volumes, images, workspaces, snapshots and routes. A Set is read from a
// Compose file into a signed bundle, or set resource by resource in the managed
// layer. Values are canonical: integers only, sets sorted and without repeats,
// order kept where it means something. The package knows no engine.
package container

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// The kinds.
const (
	KindNetwork   = "network"
	KindVolume    = "volume"
	KindImage     = "image"
	KindWorkspace = "workspace"
	KindSnapshot  = "snapshot"
	KindRoute     = "route"
)

// Kinds lists every kind in the order of what depends on what.
var Kinds = []string{KindNetwork, KindVolume, KindImage, KindWorkspace, KindSnapshot, KindRoute}

// Set is every container resource of one owner: a bundle, or the managed layer
// of a host. Each list is sorted by name; names are unique within a kind.
type Set struct {
	Networks   []Network   `json:"networks"`
	Volumes    []Volume    `json:"volumes"`
	Images     []Image     `json:"images"`
	Workspaces []Workspace `json:"workspaces"`
	Snapshots  []Snapshot  `json:"snapshots"`
	Routes     []Route     `json:"routes"`
	// ConfigureGPUs lets the host's own toolkit set up the engine's runtime and CDI specs
	// for GPUs. Only a bundle says so.
	ConfigureGPUs bool `json:"configureGPUs,omitempty"`
}

// Add takes in the resources of another set; both stay in their order.
func (s *Set) Add(more *Set) {
	s.Networks = append(s.Networks, more.Networks...)
	s.Volumes = append(s.Volumes, more.Volumes...)
	s.Images = append(s.Images, more.Images...)
	s.Workspaces = append(s.Workspaces, more.Workspaces...)
	s.Snapshots = append(s.Snapshots, more.Snapshots...)
	s.Routes = append(s.Routes, more.Routes...)
}

// Empty reports whether the set declares nothing.
func (s *Set) Empty() bool {
	return s == nil || len(s.Networks)+len(s.Volumes)+len(s.Images)+len(s.Workspaces)+len(s.Snapshots)+len(s.Routes) == 0
}

// Blob is content that travels beside a bundle.
type Blob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

// Desired is what the owner asks of one resource's manager. A Run with another
// name has the resource observed again; it never changes what is wanted.
type Desired[S any] struct {
	Spec S      `json:"spec"`
	Run  string `json:"run"`
	// Parked keeps what exists and stops what runs: the resource belongs to the
	// generation that was left, which may come back.
	Parked bool `json:"parked,omitempty"`
	// Verb asks for something once, such as redeploy; Nonce tells one asking from
	// the next.
	Verb  string `json:"verb,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	// Version is that of the managed layer which set this or asked for Verb; 0:
	// none did. It is for reports alone.
	Version uint64 `json:"version,omitempty"`
}

// Network is one network of the engine.
type Network struct {
	Name string `json:"name"`
	// External names a network that exists and is never made, changed or removed.
	External string `json:"external,omitempty"`
	// Title names it on the engine, after the host's prefix; empty takes Name.
	Title      string            `json:"title,omitempty"`
	Driver     string            `json:"driver,omitempty"` // empty: the engine's default, bridge
	Options    map[string]string `json:"options,omitempty"`
	Internal   bool              `json:"internal,omitempty"`
	Attachable bool              `json:"attachable,omitempty"`
	IPv6       bool              `json:"ipv6,omitempty"`
	IPAMDriver string            `json:"ipamDriver,omitempty"`
	IPAMOpts   map[string]string `json:"ipamOptions,omitempty"`
	Pools      []Pool            `json:"pools,omitempty"` // in order
	// Apart says that no pool may meet an address or a route of the host. Agents set
	// it in the managed layer.
	Apart  bool              `json:"apart,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Pool is one address pool of a network.
type Pool struct {
	Subnet  string            `json:"subnet,omitempty"`
	Range   string            `json:"range,omitempty"`
	Gateway string            `json:"gateway,omitempty"`
	Aux     map[string]string `json:"aux,omitempty"`
}

// Volume is one named volume.
type Volume struct {
	Name     string            `json:"name"`
	External string            `json:"external,omitempty"`
	Title    string            `json:"title,omitempty"`
	Driver   string            `json:"driver,omitempty"` // empty: local
	Options  map[string]string `json:"options,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// PullPolicy says when a registry is asked.
type PullPolicy string

// The policies: Missing, the default, only when the engine has no such image;
// Always at every run of the image; Never not at all.
const (
	PullMissing PullPolicy = "missing"
	PullAlways  PullPolicy = "always"
	PullNever   PullPolicy = "never"
)

// Image is one image that workspaces run from. Exactly one of Pull, Build and
// Load says where it comes from.
type Image struct {
	Name string `json:"name"`
	// Ref is how people name it, such as registry.example/app:1; what is not built
	// needs one. See EngineRef.
	Ref   string `json:"ref,omitempty"`
	Pull  *Pull  `json:"pull,omitempty"`
	Build *Build `json:"build,omitempty"`
	Load  *Load  `json:"load,omitempty"`
}

// Pull fetches Image.Ref from its registry.
type Pull struct {
	Policy   PullPolicy `json:"policy,omitempty"` // empty: missing
	Platform string     `json:"platform,omitempty"`
}

// Build makes the image on the host.
type Build struct {
	// Context is a tar of the build context; nil for an inline Dockerfile that
	// needs none.
	Context *Blob `json:"context,omitempty"`
	// Inline is the text of a Dockerfile; else Dockerfile is a path in the context,
	// by default "Dockerfile".
	Inline     string            `json:"inline,omitempty"`
	Dockerfile string            `json:"dockerfile,omitempty"`
	Target     string            `json:"target,omitempty"`
	Args       map[string]string `json:"args,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Network    string            `json:"network,omitempty"` // host, none or empty
	ExtraHosts []string          `json:"extraHosts,omitempty"`
	ShmSize    int64             `json:"shmSize,omitempty"` // bytes
	Platform   string            `json:"platform,omitempty"`
	NoCache    bool              `json:"noCache,omitempty"`
	Pull       bool              `json:"pull,omitempty"` // ask registries for newer base images
	Tags       []string          `json:"tags,omitempty"` // further names
	// Bases gives the digests of images that the Dockerfile names by tag.
	Bases   map[string]string `json:"bases,omitempty"`
	Timeout clock.Duration    `json:"timeout,omitempty"`
	// Limits of each RUN step; 0 is none.
	Memory   int64 `json:"memory,omitempty"` // bytes, swap within
	NanoCPUs int64 `json:"nanoCPUs,omitempty"`
}

// Load reads an archive as docker save writes it; Image.Ref must be in it.
type Load struct {
	Archive Blob `json:"archive"`
}

// Snapshot is a running workspace captured as an image. It is taken once for
// each Take; it holds no volume's content and no state of processes.
type Snapshot struct {
	Name      string `json:"name"`
	Workspace string `json:"workspace"`
	// Ref names the image; empty takes the host's prefix, "snapshot-" and Name.
	Ref  string `json:"ref,omitempty"`
	Take int64  `json:"take,omitempty"`
	// Live does not pause the workspace meanwhile.
	Live bool `json:"live,omitempty"`
	// Keep lists environment names that are kept although they may hold secrets.
	Keep []string `json:"keep,omitempty"`
}

// Route leads requests of a host name and path to a workspace's port through
// the agent's own router.
type Route struct {
	Name      string `json:"name"`
	Host      string `json:"host,omitempty"` // empty: any
	Path      string `json:"path,omitempty"` // prefix; empty: /
	StripPath bool   `json:"stripPath,omitempty"`
	Workspace string `json:"workspace"`
	Port      int    `json:"port"`
	// TLS names a certificate in the host's own store; empty serves plain HTTP.
	TLS          string         `json:"tls,omitempty"`
	RedirectHTTP bool           `json:"redirectHTTP,omitempty"`
	MaxBody      int64          `json:"maxBody,omitempty"` // bytes; 0: no limit
	HeaderWait   clock.Duration `json:"headerWait,omitempty"`
	ForwardAuth  string         `json:"forwardAuth,omitempty"` // URL
}
