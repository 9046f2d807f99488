package image_test

import (
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/image"
)

// TestTwoAgentsKeepTheFirstOfTwoBuilds: two agents of one host that built the
// same at once agree on one of the images; what somebody else made under the name
// is never taken.
func TestTwoAgentsKeepTheFirstOfTwoBuilds(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM "+l.docker.Busybox(t)+"\nRUN cat /proc/sys/kernel/random/uuid >/id")
	i.Build.NoCache = true
	first := l.row(i)
	first.Finish(t, l.ctx).Must(t, "converged", "", "build")
	older := l.id(l.ref(i))
	_, err := l.api.ImageTag(l.ctx, client.ImageTagOptions{Source: older, Target: l.owner.Title("kept") + ":1"})
	l.must(err)
	_, err = l.api.ImageRemove(l.ctx, l.ref(i), client.ImageRemoveOptions{})
	l.must(err)

	options := l.options
	options.Ledger, err = image.Open(filepath.Join(t.TempDir(), "images"))
	l.must(err)
	second := dockertest.New(image.New(options), spec.KindImage, i.Name, want(i))
	second.Finish(t, l.ctx).Must(t, "converged", "", "build")
	if l.id(l.ref(i)) == older {
		t.Fatal("built the same twice")
	}
	first.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	second.Finish(t, l.ctx).Must(t, "converged", "", "record")
	for range 2 {
		l.quiet(first)
		l.quiet(second)
	}
	if l.id(l.ref(i)) != older {
		t.Error("the later one stayed")
	}
	other := l.make(l.ref(i), "of somebody else")
	second.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	if got := l.id(l.ref(i)); got == other || got != older {
		t.Errorf("the reference names %s", got)
	}
}
