package storage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/image"
)

// rewrite makes an archive with the settings of an image and none of its layers,
// which the engine has already. What is to go is taken out by name here. Made is
// the ID that the image will have.
func rewrite(seen *image.InspectResponse, p Plan) (archive io.Reader, made string, err error) {
	if seen.Config == nil || len(seen.RootFS.Layers) == 0 {
		return nil, "", errors.New("the engine shows neither settings nor layers of the commit")
	}
	config := *seen.Config
	config.Env = slices.DeleteFunc(slices.Clone(config.Env), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return slices.Contains(p.Env, name)
	})
	labels := map[string]string{}
	for k, v := range config.Labels {
		if !slices.Contains(p.Labels, k) || strings.HasPrefix(k, prefix) {
			labels[k] = v
		}
	}
	config.Labels = labels
	type event struct {
		Created   string `json:"created"`
		CreatedBy string `json:"created_by"`
		Comment   string `json:"comment,omitempty"`
	}
	history := make([]event, len(seen.RootFS.Layers))
	for i := range history {
		history[i] = event{Created: seen.Created, CreatedBy: "steady snapshot"}
	}
	history[len(history)-1].Comment = seen.Comment
	text, err := json.Marshal(map[string]any{
		"architecture": seen.Architecture, "variant": seen.Variant, "os": seen.Os, "created": seen.Created, "comment": seen.Comment,
		"config": config, "history": history,
		"rootfs": map[string]any{"type": "layers", "diff_ids": seen.RootFS.Layers},
	})
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	name := hex.EncodeToString(sum[:])
	paths := make([]string, len(seen.RootFS.Layers))
	for i, l := range seen.RootFS.Layers {
		paths[i] = strings.TrimPrefix(l, "sha256:") + "/layer.tar"
	}
	list, err := json.Marshal([]map[string]any{{"Config": name + ".json", "RepoTags": nil, "Layers": paths}})
	if err != nil {
		return nil, "", err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		text []byte
	}{{name + ".json", text}, {"manifest.json", list}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o600, Size: int64(len(f.text))}); err != nil {
			return nil, "", err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, "", err
		}
	}
	return &buf, "sha256:" + name, w.Close()
}
