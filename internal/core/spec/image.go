package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/imageref"
)

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
	Name  string `json:"name"`
	Ref   string `json:"ref,omitempty" example:"registry.example/app:1" doc:"how people name it, such as registry.example/app:1; what is not built needs one"` // see EngineRef
	Pull  *Pull  `json:"pull,omitempty" doc:"gets it from a registry"`
	Build *Build `json:"build,omitempty" doc:"builds it on the host"`
	Load  *Load  `json:"load,omitempty" doc:"loads it from an archive that the bundle brings"`
}

// Pull fetches Image.Ref from its registry.
type Pull struct {
	Policy   PullPolicy `json:"policy,omitempty" enum:"missing,always,never" doc:"by default missing: a registry is asked for what the engine lacks"`
	Platform string     `json:"platform,omitempty"`
}

// Build makes the image on the host.
type Build struct {
	// Context is a tar of the build context; nil for an inline Dockerfile that
	// needs none.
	Context    *Blob             `json:"context,omitempty"`
	Inline     string            `json:"inline,omitempty" example:"FROM registry.example/base:1\nRUN echo built" doc:"the text of a Dockerfile"`
	Dockerfile string            `json:"dockerfile,omitempty" doc:"a path in the context, by default Dockerfile"`
	Target     string            `json:"target,omitempty"`
	Args       map[string]string `json:"args,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Network    string            `json:"network,omitempty"` // host, none or empty
	ExtraHosts []string          `json:"extraHosts,omitempty"`
	ShmSize    int64             `json:"shmSize,omitempty"` // bytes
	Platform   string            `json:"platform,omitempty"`
	NoCache    bool              `json:"noCache,omitempty"`
	Pull       bool              `json:"pull,omitempty" doc:"ask registries for newer base images"`
	Tags       []string          `json:"tags,omitempty" doc:"further names"`
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

func (i *Image) Named() *string { return &i.Name }

func (i *Image) Normalize() {
	if i.Pull != nil && i.Pull.Policy == PullMissing {
		i.Pull.Policy = ""
	}
	if b := i.Build; b != nil {
		if b.Dockerfile == "Dockerfile" || b.Inline != "" {
			b.Dockerfile = ""
		}
		b.Args, b.Labels, b.Bases = filledMap(b.Args), filledMap(b.Labels), filledMap(b.Bases)
		b.ExtraHosts, b.Tags = unique(b.ExtraHosts), unique(b.Tags)
	}
}

func (i *Image) Needs() []Need { return nil }

func (i *Image) Blobs() []Blob {
	switch {
	case i.Build != nil && i.Build.Context != nil:
		return []Blob{*i.Build.Context}
	case i.Load != nil:
		return []Blob{i.Load.Archive}
	}
	return nil
}

// Unique is its reference, unless it is pulled: two pulls may ask for one image, under
// two policies.
func (i *Image) Unique() string {
	if i.Pull != nil {
		return ""
	}
	return i.EngineRef(func(t string) string { return t })
}

// EngineRef is how the engine names what workspaces run from. A built image is
// named by what it is built from, so that the one of the next generation can be
// prepared, and the one of the last comes back, beside the one that runs; Ref is
// then a further name of it.
func (i *Image) EngineRef(t NameMapper) string {
	if i.Build == nil {
		return i.Ref
	}
	raw, err := json.Marshal(i.Build)
	if err != nil {
		panic("spec: a build of strings and numbers did not encode: " + err.Error())
	}
	return t(i.Name) + ":" + digest.Of(raw).Short()
}

// Names lists the further names that a built image is given.
func (i *Image) Names() []string {
	if i.Build == nil {
		return nil
	}
	if i.Ref == "" {
		return i.Build.Tags
	}
	return append([]string{i.Ref}, i.Build.Tags...)
}

// Claims lists its names on the engine. Who pulls what is missing changes nothing for
// others who pull it.
func (i *Image) Claims(t NameMapper) []Claim {
	out := []Claim{{claimOf(i.EngineRef(t)), i.Pull != nil && i.Pull.Policy != PullAlways}}
	for _, ref := range i.Names() {
		out = append(out, Claim{What: claimOf(ref)})
	}
	return out
}

func claimOf(ref string) string {
	if r, err := imageref.Parse(ref); err == nil {
		ref = r.String()
	}
	return fmt.Sprintf("image %q", ref)
}

func (i *Image) Check(c Checker) {
	ways := 0
	for _, set := range []bool{i.Pull != nil, i.Build != nil, i.Load != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.Addf("image %q has %d sources: expected one of pull, build and load", i.Name, ways)
	}
	if i.Ref == "" && i.Build == nil {
		c.In("ref").Addf("image %q has no reference: expected how the engine names it, such as registry.example/app:1", i.Name)
	}
	checkRef(c.In("ref"), i.Ref)
	if i.Pull != nil {
		checkOneOf(c.In("pull", "policy"), i.Pull.Policy, "policy %q: expected missing, always or never", "", PullMissing, PullAlways, PullNever)
	}
	if i.Load != nil {
		checkBlob(c.In("load", "archive"), &i.Load.Archive)
	}
	if i.Build != nil {
		checkBuild(c.In("build"), i.Build)
	}
}

func checkBuild(c Checker, b *Build) {
	switch {
	case b.Context == nil && b.Inline == "":
		c.Addf("a build without context and without inline Dockerfile: expected one of them")
	case b.Inline != "" && b.Dockerfile != "":
		c.In("dockerfile").Addf("inline and dockerfile are both set: expected one of them")
	}
	if b.Context != nil {
		checkBlob(c.In("context"), b.Context)
	}
	checkText(c, b.Inline, b.Dockerfile, b.Target, b.Platform)
	if strings.HasPrefix(b.Dockerfile, "/") || slices.Contains(strings.Split(b.Dockerfile, "/"), "..") {
		c.In("dockerfile").Addf("%q: expected a path inside the build context", b.Dockerfile)
	}
	checkOneOf(c.In("network"), b.Network, "network %q: expected host, none or nothing", "", "host", "none", "default")
	checkMap(c.In("args"), b.Args)
	checkLabels(c.In("labels"), b.Labels)
	checkTexts(c.In("extraHosts"), b.ExtraHosts)
	checkTexts(c.In("tags"), b.Tags)
	for _, t := range b.Tags {
		checkRef(c.In("tags"), t)
	}
	checkMap(c.In("bases"), b.Bases)
	for _, ref := range slices.Sorted(maps.Keys(b.Bases)) {
		if imageref.Pinned(ref) || !imageref.Pinned(ref+"@"+b.Bases[ref]) {
			c.In("bases", ref).Addf("digest %q of base image %q: expected sha256: and its digest, of an image that is named by tag", b.Bases[ref], ref)
		}
	}
	checkSize(c, "shmSize", b.ShmSize)
	checkSize(c, "timeout", int64(b.Timeout))
}

// checkRef refuses what is no reference of an image; an empty one says nothing.
func checkRef(c Checker, ref string) {
	if _, err := imageref.Parse(ref); err != nil && ref != "" {
		c.Addf("%v", err)
	}
}

func checkBlob(c Checker, b *Blob) {
	if b.Digest == "" || b.Size < 0 || b.Size > 1<<40 {
		c.Addf("content needs a digest and a size of 0 to %d bytes", int64(1<<40))
	}
}

func (i *Image) CheckBounds(b *Bounds, c Checker) {
	switch {
	case i.Load != nil:
		c.In("load").Addf("an archive may name its images at will: expected it in a bundle")
	case i.Pull != nil && !b.Allows(i.Ref):
		c.In("ref").Addf("image %q is not allowed here: expected one of %q", i.Ref, b.Images)
	case i.Pull != nil && b.RequireSigned && !imageref.Pinned(i.Ref):
		c.In("ref").Addf("image %q has no digest, so a signature would not say which image it is: expected %s@sha256: and its digest", i.Ref, i.Ref)
	case i.Build != nil:
		if i.Ref != "" || len(i.Build.Tags) > 0 {
			c.In("ref").Addf("a built image named %q could take the place of another: expected no reference and no tags, so that it is named after the host", i.Ref)
		}
		if i.Build.Network == "host" && !b.HostNamespaces {
			c.In("build", "network").Addf("a build in the host's network: expected none, or another")
		}
		b.build(c.In("build"), i.Build)
	}
}

// Allows reports whether a reference is of an image that may be pulled.
func (b *Bounds) Allows(ref string) bool {
	r, err := imageref.Parse(ref)
	return err == nil && slices.ContainsFunc(b.Images, func(allowed string) bool { return allowed == "*" || r.Within(allowed) })
}

// Confine gives its build limits.
func (i *Image) Confine(b *Bounds) {
	if i.Build == nil {
		return
	}
	build := *i.Build
	build.Memory, build.NanoCPUs = cmp.Or(build.Memory, b.MaxMemory), cmp.Or(build.NanoCPUs, b.MaxNanoCPUs)
	build.Timeout = cmp.Or(build.Timeout, longestBuild)
	i.Build = &build
}
