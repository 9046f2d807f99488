package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

const composeFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: shop}
hosts: {edge-1: {channel: stable, bundle: shop}}
channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}
rolloutPolicies: {all: {waves: [{name: all, selector: {all: true}}], confirmWindow: 2m}}
bundles: {shop: {path: shop}}
`

var busybox = "sha256:" + strings.Repeat("1a", 32)

func composeTree(files map[string]string) map[string]string {
	out := map[string]string{
		fleetdir.FleetFile: composeFleet,
		"shop/bundle.yaml": "compose: [compose.yaml]\ncomposeEnv: [SHOP_TAG]\nprofiles: [extra]\n",
		"shop/compose.yaml": "services:\n  web: {build: app, image: 'shop:${SHOP_TAG}', configs: [motd]}\n" +
			"  more: {image: 'busybox:1.37', profiles: [extra]}\nconfigs: {motd: {content: hello}}\n",
		fleetdir.LockFile:     string(fleetdir.LockText(imageref.Lock{"docker.io/library/busybox:1.37": busybox})),
		"shop/app/Dockerfile": "FROM scratch\nCOPY Dockerfile /\n",
	}
	for k, v := range files {
		out[k] = v
	}
	return out
}

func TestComposeBundle(t *testing.T) {
	t.Setenv("SHOP_TAG", "7")
	src, problems := fleetdir.Load(testkit.Folder(t, composeTree(nil)))
	if len(problems) > 0 {
		t.Fatal(lines(problems))
	}
	b := src.Bundles["shop"]
	if b.Bundle.Containers == nil || len(b.Bundle.Containers.Workspaces) != 2 || b.Bundle.Critical[0] != "containers" {
		t.Fatalf("the bundle has no containers, or does not say so: %s", b.Bytes)
	}
	if built, pulled := b.Bundle.Containers.Images[1].Ref, b.Bundle.Containers.Images[0].Ref; built != "shop:7" || pulled != "busybox:1.37@"+busybox {
		t.Errorf("the images are %q and %q", built, pulled)
	}
	k := newKeys(t, "shop")
	dir, _, v := publish(t, k, src, BuildOptions{Now: t0})
	blobs := 0
	for _, blob := range b.Bundle.Blobs() {
		raw, err := v.ReadFile(BlobPath(blob.Digest))
		if err != nil || digest.Of(raw) != blob.Digest {
			t.Errorf("blob %s: %v", blob.Digest.Short(), err)
		}
		blobs++
	}
	if blobs != 2 {
		t.Errorf("%d blobs, want the build context and the config", blobs)
	}
	// The next release keeps the content of the old manifest.
	again, problems := fleetdir.Load(testkit.Folder(t, composeTree(map[string]string{"shop/app/new": "x"})))
	if len(problems) > 0 {
		t.Fatal(lines(problems))
	}
	rel, problems := Build(again, BuildOptions{Now: t0.Add(clock.Hour), Previous: v})
	if Fatal(problems) {
		t.Fatal(lines(problems))
	}
	for _, blob := range b.Bundle.Blobs() {
		if rel.Files[BlobPath(blob.Digest)] == nil {
			t.Errorf("the next release lost blob %s of a manifest that it lists", blob.Digest.Short())
		}
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, BlobPath(b.Bundle.Blobs()[0].Digest))))
	if _, err := VerifyDir(dir, k.state(t), t0.Add(clock.Hour)); err == nil {
		t.Error("a release without a build context or config verifies")
	}
}

// Base images are locked like others; one that is not is a warning, because what
// is built is known by its context.
func TestBaseImagesAreLocked(t *testing.T) {
	files := map[string]string{
		"shop/bundle.yaml":    "compose: compose.yaml\n",
		"shop/compose.yaml":   "services:\n  web: {build: {context: app, args: {V: '1.37'}}}\n  more: {build: {dockerfile_inline: 'FROM golang:1'}}\n",
		"shop/app/Dockerfile": "ARG V\nFROM busybox:${V} AS one\nFROM one\nCOPY --from=busybox@" + busybox + " / /\n",
	}
	dir := testkit.Folder(t, composeTree(files))
	src, problems := fleetdir.Load(dir)
	if got := lines(problems); Fatal(problems) || !strings.Contains(got, `base image "golang:1" has no digest`) || len(problems) != 1 {
		t.Fatal(got)
	}
	images := src.Bundles["shop"].Bundle.Containers.Images
	if got := images[1].Build.Bases; len(got) != 1 || got["busybox:1.37"] != busybox || images[0].Build.Bases != nil {
		t.Errorf("the bases are %v and %v", got, images[0].Build.Bases)
	}
	used, problems := fleetdir.References(dir)
	if want := []string{"docker.io/library/busybox:1.37", "docker.io/library/golang:1"}; !slices.Equal(used, want) || Fatal(problems) {
		t.Errorf("to be locked are %v, want %v: %s", used, want, lines(problems))
	}
}

func TestComposeBundleProblems(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"variable that is not set": {nil, "shop/bundle.yaml:2:14: variable SHOP_TAG is not set where the release is built"},
		"no compose":               {map[string]string{"shop/bundle.yaml": "profiles: [a]\n"}, "shop/bundle.yaml:1:1: profiles without a Compose file"},
		"nothing runs":             {map[string]string{"shop/bundle.yaml": "compose: compose.yaml\n", "shop/compose.yaml": "services: {a: {image: 'a:1', profiles: [x]}}\n"}, "declare nothing that runs"},
		"in the file":              {map[string]string{"shop/bundle.yaml": "compose: compose.yaml\n", "shop/compose.yaml": "services:\n  a: {image: 'a:1', imgae: b}\n"}, `shop/compose.yaml:2:21: unknown key "imgae": expected image`},
		"no digest":                {map[string]string{"shop/bundle.yaml": "compose: compose.yaml\n", "shop/compose.yaml": "services:\n  a: {image: 'a:1'}\n"}, `shop/compose.yaml:2:14: image "a:1" has no digest`},
		"outside":                  {map[string]string{"shop/bundle.yaml": "compose: ../compose.yaml\n"}, "leaves the bundle folder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := fleetdir.Load(testkit.Folder(t, composeTree(c.files)))
			if got := lines(problems); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

// The digest of a bundle without containers is what it was before there were any.
func TestBundleWithoutContainersKeepsItsDigest(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	for name, b := range src.Bundles {
		if strings.Contains(string(b.Bytes), "containers") || strings.Contains(string(b.Bytes), "critical") {
			t.Errorf("bundle %q: %s", name, b.Bytes)
		}
	}
}
