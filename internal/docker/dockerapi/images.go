package dockerapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// ImageList lists images that carry all labels, without intermediate ones.
func (e *Engine) ImageList(ctx context.Context, labels ...string) ([]image.Summary, error) {
	out, err := requestAll(ctx, e, e.timeout, "list images", e.api.ImageList, client.ImageListOptions{Filters: labelled(labels)})
	return out.Items, err
}

// ImageInspect reads an image by reference or ID.
func (e *Engine) ImageInspect(ctx context.Context, ref string) (image.InspectResponse, error) {
	var out client.ImageInspectResult
	err := e.do(ctx, e.timeout, "inspect image", ref, func(ctx context.Context) (err error) {
		out, err = e.api.ImageInspect(ctx, ref)
		return err
	})
	return out.InspectResponse, err
}

// ImageTag gives an image one more reference, taking it from the image that had it.
func (e *Engine) ImageTag(ctx context.Context, source, target string) error {
	return e.do(ctx, e.timeout, "tag image", source, func(ctx context.Context) error {
		_, err := e.api.ImageTag(ctx, client.ImageTagOptions{Source: source, Target: target})
		return err
	})
}

// ImageRemove removes a reference, and the image with its last one; by ID, the
// image. It never forces. An engine removes a reference that a container uses
// when the image has another one: count the uses first.
func (e *Engine) ImageRemove(ctx context.Context, ref string) ([]image.DeleteResponse, error) {
	out, err := request(ctx, e, e.longest, "remove image", ref, e.api.ImageRemove, client.ImageRemoveOptions{PruneChildren: true})
	return out.Items, err
}

// Line is one message of a pull, a build or a load.
type Line struct {
	Stream  string // output of a build, with its line ends; standard error comes in red
	Status  string // such as "Downloading"
	ID      string // of the layer or tag that Status speaks of
	Current int64  // bytes done
	Total   int64  // bytes in all, 0 if unknown
}

// Pull is what to fetch and as whom.
type Pull struct {
	Ref      string // repository:tag or repository@digest
	Platform string // os/arch[/variant]; empty: that of the engine
	Auth     *registry.AuthConfig
}

// ImagePull fetches an image; each (may be nil) gets every line. The error is
// also the one that the engine reports at the end of its stream.
func (e *Engine) ImagePull(ctx context.Context, p Pull, each func(Line)) error {
	return e.watched(ctx, e.pull, "pull image", p.Ref, func(ctx context.Context, alive func()) error {
		var o client.ImagePullOptions
		if p.Auth != nil {
			text, err := authconfig.Encode(*p.Auth)
			if err != nil {
				return err
			}
			o.RegistryAuth = text
		}
		if p.Platform != "" {
			o.Platforms = slices.Grow(o.Platforms, 1)[:1]
			if err := readPlatform(p.Platform, &o.Platforms[0]); err != nil {
				return err
			}
		}
		r, err := e.api.ImagePull(ctx, p.Ref, o)
		if err != nil {
			return err
		}
		defer r.Close()
		return messages(r, alive, each, nil)
	})
}

// Build is what to build. It is the engine's own builder (version 1).
type Build struct {
	Tags       []string
	Dockerfile string // path in the context; empty: Dockerfile
	Target     string // stage; empty: the last
	Args       map[string]*string
	Labels     map[string]string
	NoCache    bool
	Pull       bool     // look for newer base images
	Network    string   // of RUN steps; empty: the default one
	Platform   string   // os/arch[/variant]; empty: that of the engine
	ExtraHosts []string // of RUN steps, as name:address
	ShmSize    int64    // of RUN steps, in bytes; 0: the engine's default
	Memory     int64    // of RUN steps, in bytes, swap within; 0: no limit
	NanoCPUs   int64    // of RUN steps; 0: no limit
	// Auth are credentials by registry, for the base images.
	Auth map[string]registry.AuthConfig
}

// ImageBuild builds an image from the tar of its context and gives the ID of
// the image; each (may be nil) gets every line. It stops when ctx ends.
func (e *Engine) ImageBuild(ctx context.Context, tar io.Reader, b Build, each func(Line)) (id string, err error) {
	name := ""
	if len(b.Tags) > 0 {
		name = b.Tags[0]
	}
	err = e.watched(ctx, e.longest, "build image", name, func(ctx context.Context, alive func()) error {
		o := client.ImageBuildOptions{
			Version: build.BuilderV1, Tags: b.Tags, Dockerfile: b.Dockerfile, Target: b.Target, BuildArgs: b.Args,
			Labels: b.Labels, NoCache: b.NoCache, PullParent: b.Pull, NetworkMode: b.Network, AuthConfigs: b.Auth, ExtraHosts: b.ExtraHosts, ShmSize: b.ShmSize,
			Remove: true, ForceRemove: true, Memory: b.Memory, MemorySwap: b.Memory,
		}
		if b.NanoCPUs > 0 {
			o.CPUPeriod = 100_000
			o.CPUQuota = max(1000, b.NanoCPUs/10_000) // billionths of a second in each second, microseconds in each 100 ms
		}
		if b.Platform != "" {
			o.Platforms = slices.Grow(o.Platforms, 1)[:1]
			if err := readPlatform(b.Platform, &o.Platforms[0]); err != nil {
				return err
			}
		}
		r, err := e.api.ImageBuild(ctx, progress{tar, alive}, o)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		err = messages(r.Body, alive, each, func(aux json.RawMessage) {
			var made struct{ ID string }
			if json.Unmarshal(aux, &made) == nil && made.ID != "" {
				id = made.ID
			}
		})
		if err == nil && id == "" {
			err = errors.New("the engine ended the build without the ID of an image")
		}
		return err
	})
	return id, err
}

// ImageLoad loads images from a tar made by an engine; each (may be nil) gets every line.
func (e *Engine) ImageLoad(ctx context.Context, tar io.Reader, each func(Line)) error {
	return e.watched(ctx, e.longest, "load images", "", func(ctx context.Context, alive func()) error {
		r, err := e.api.ImageLoad(ctx, progress{tar, alive})
		if err != nil {
			return err
		}
		defer r.Close()
		return messages(r, alive, each, nil)
	})
}

// messages reads a stream of messages to its end, or to the error in it.
func messages(r io.Reader, alive func(), each func(Line), aux func(json.RawMessage)) error {
	dec := json.NewDecoder(r)
	for {
		var m jsonstream.Message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the engine's progress: %w", err)
		}
		alive()
		if m.Error != nil {
			return m.Error
		}
		if m.Aux != nil {
			if aux != nil {
				aux(*m.Aux)
			}
			continue
		}
		if each == nil {
			continue
		}
		l := Line{Stream: m.Stream, Status: m.Status, ID: m.ID}
		if m.Progress != nil {
			l.Current, l.Total = m.Progress.Current, m.Progress.Total
		}
		each(l)
	}
}
