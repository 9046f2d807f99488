package dockerapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/imageref"
)

// Annotations that give an image of a layout its name: what containerd and docker
// save write, and what the image specification has, where tools write a bare tag
// as well.
const (
	annotationImage = "io.containerd.image.name"
	annotationName  = "org.opencontainers.image.ref.name"
)

// Layout reads the digests of the images that an OCI image layout names in full,
// as a lock. A bare tag says nothing of whose it is and is left out.
func Layout(dir string) (imageref.Lock, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, fmt.Errorf("%s is no OCI image layout: %w: expected a folder such as skopeo copy writes", dir, err)
	}
	var index struct {
		Manifests []struct {
			Digest      string            `json:"digest"`
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("%s is no OCI image layout: index.json: %w", dir, err)
	}
	out := imageref.Lock{}
	for _, m := range index.Manifests {
		r, err := imageref.Parse(cmp.Or(m.Annotations[annotationImage], m.Annotations[annotationName]))
		if err != nil || r.Tag == "" || !valid(m.Digest) {
			continue
		}
		key := r.Domain + "/" + r.Path + ":" + r.Tag
		if before, twice := out[key]; twice && before != m.Digest {
			return nil, fmt.Errorf("layout %s has two images named %s, %s and %s: expected each name once", dir, key, before, m.Digest)
		}
		out[key] = m.Digest
	}
	return out, nil
}
