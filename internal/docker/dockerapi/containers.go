package dockerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// labelled asks for objects that carry every one of the labels, each `key` or
// `key=value`.
func labelled(labels []string) client.Filters {
	f := client.Filters{}
	if len(labels) > 0 {
		f.Add("label", labels...)
	}
	return f
}

// ContainerInspect reads a container by name or ID.
func (e *Engine) ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error) {
	out, err := request(ctx, e, e.timeout, "inspect container", id, e.api.ContainerInspect, client.ContainerInspectOptions{})
	return out.Container, err
}

// Creation is what a container is made from.
type Creation struct {
	Name    string
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig // at most one endpoint before API 1.44: connect the others
	// Platform is os/arch or os/arch/variant; empty: that of the image.
	Platform string
	// MAC is the hardware address on the first network. Engines from API 1.44 on take
	// it with the network alone.
	MAC string
}

// ContainerCreate makes a container and does not start it.
func (e *Engine) ContainerCreate(ctx context.Context, c Creation) (id string, warnings []string, err error) {
	var out client.ContainerCreateResult
	err = e.do(ctx, e.timeout, "create container", c.Name, func(ctx context.Context) (err error) {
		o := client.ContainerCreateOptions{Name: c.Name, Config: c.Config, HostConfig: c.Host, NetworkingConfig: c.Network}
		if c.Platform != "" {
			if err := readPlatform(c.Platform, &o.Platform); err != nil {
				return err
			}
		}
		if c.MAC != "" {
			made, err := e.createWithMAC(ctx, o, c)
			if err != nil {
				return err
			}
			if made != nil {
				out.ID, out.Warnings = made.ID, made.Warnings
				return nil
			} // the client gives its own error, as everywhere
		}
		out, err = e.api.ContainerCreate(ctx, o)
		return err
	})
	return out.ID, out.Warnings, err
}

// createWithMAC makes a container with a hardware address of its own, which the
// client's types have no more; nil if the engine says no.
func (e *Engine) createWithMAC(ctx context.Context, o client.ContainerCreateOptions, c Creation) (*container.CreateResponse, error) {
	raw, err := json.Marshal(container.CreateRequest{Config: o.Config, HostConfig: o.HostConfig, NetworkingConfig: o.NetworkingConfig})
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if fields["MacAddress"], err = json.Marshal(c.MAC); err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	var answer bytes.Buffer
	query := url.Values{"name": {c.Name}}
	if c.Platform != "" {
		query.Set("platform", c.Platform)
	}
	ok, err := e.bytes(ctx, http.MethodPost, "/containers/create?"+query.Encode(), bytes.NewReader(raw), &answer)
	if !ok || err != nil {
		return nil, err
	}
	out := &container.CreateResponse{}
	return out, json.Unmarshal(answer.Bytes(), out)
}

// readPlatform reads os/arch[/variant] into the client's own type of a platform.
func readPlatform(name string, to any) error {
	parts := strings.Split(name, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("platform %q: write os/arch or os/arch/variant, such as linux/amd64", name)
	}
	out := map[string]string{"os": parts[0], "architecture": parts[1]}
	if len(parts) == 3 {
		out["variant"] = parts[2]
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// ContainerStart starts a container. One that runs is left as it is.
func (e *Engine) ContainerStart(ctx context.Context, id string) error {
	_, err := request(ctx, e, e.timeout, "start container", id, e.api.ContainerStart, client.ContainerStartOptions{})
	return err
}

// ContainerStop sends the signal (empty: that of the container) and kills after
// grace, in whole seconds. A container that does not run is left as it is.
func (e *Engine) ContainerStop(ctx context.Context, id string, grace time.Duration, signal string) error {
	seconds := int((grace + time.Second - 1) / time.Second)
	_, err := request(ctx, e, grace+e.timeout, "stop container", id, e.api.ContainerStop, client.ContainerStopOptions{Timeout: &seconds, Signal: signal})
	return err
}

// ContainerUnpause lets a frozen container go on.
func (e *Engine) ContainerUnpause(ctx context.Context, id string) error {
	_, err := request(ctx, e, e.timeout, "unpause container", id, e.api.ContainerUnpause, client.ContainerUnpauseOptions{})
	return err
}

// Removal is how a container is removed. Both are false unless set.
type Removal struct {
	Force            bool // also if it runs
	AnonymousVolumes bool // and the data in volumes without a name
}

// ContainerRemove removes a container. Named volumes stay.
func (e *Engine) ContainerRemove(ctx context.Context, id string, r Removal) error {
	_, err := request(ctx, e, e.timeout, "remove container", id, e.api.ContainerRemove, client.ContainerRemoveOptions{Force: r.Force, RemoveVolumes: r.AnonymousVolumes})
	return err
}

// ContainerRename gives a container another name.
func (e *Engine) ContainerRename(ctx context.Context, id, name string) error {
	_, err := request(ctx, e, e.timeout, "rename container", id, e.api.ContainerRename, client.ContainerRenameOptions{NewName: name})
	return err
}

// ContainerUpdate changes limits and the restart policy in place; nil leaves
// them. Engines ignore some fields in silence (a limit of 0, the size of
// /dev/shm): inspect afterwards.
func (e *Engine) ContainerUpdate(ctx context.Context, id string, limits *container.Resources, restart *container.RestartPolicy) (warnings []string, err error) {
	out, err := request(ctx, e, e.timeout, "update container", id, e.api.ContainerUpdate, client.ContainerUpdateOptions{Resources: limits, RestartPolicy: restart})
	return out.Warnings, err
}

// Commit is the image that a container becomes.
type Commit struct {
	Ref     string   // repository:tag; empty: none
	Changes []string // lines of a Dockerfile that override the container's settings
	Comment string
	NoPause bool // leave it running meanwhile
}

// ContainerCommit makes an image of the container's file system, without its
// volumes. Labels and environment of the container go into it unless Changes
// override them.
func (e *Engine) ContainerCommit(ctx context.Context, id string, c Commit) (image string, err error) {
	out, err := request(ctx, e, e.longest, "commit container", id, e.api.ContainerCommit, client.ContainerCommitOptions{
		Reference: c.Ref, Changes: c.Changes, Comment: c.Comment, NoPause: c.NoPause})
	return out.ID, err
}

// progress reports each piece that is read.
type progress struct {
	io.Reader
	alive func()
}

func (p progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.alive()
	return n, err
}
