package dockerapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/imageref"
)

// Bounds of one look-up.
const (
	maxManifest = 4 << 20 // bytes, as the OCI distribution specification asks for
	maxToken    = 1 << 20 // bytes
	patience    = 30 * time.Second
)

// accepted are the kinds of manifests, indexes of several platforms first.
const accepted = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " +
	"application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

// ErrUnknownImage says that a registry has no such image, or none that these
// credentials may see.
var ErrUnknownImage = errors.New("the registry has no such image, or shows it to nobody without the right credentials")

// Credentials gives those of a registry; false without any.
type Credentials func(host string) (registry.AuthConfig, bool, error)

// Registry asks registries. The zero value asks without credentials.
type Registry struct {
	Credentials Credentials
	HTTP        *http.Client // nil takes the default, with the proxies of the environment
}

// Digest is what a reference with a tag means now: the digest of its index or
// manifest.
func (c *Registry) Digest(ctx context.Context, ref string) (string, error) {
	r, err := imageref.Parse(ref)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &lookup{Registry: c, ref: r, scheme: "https"}
	d, err := s.digest(ctx)
	if err != nil && loopback(r.Domain) && errors.As(err, new(*url.Error)) {
		s.scheme, s.auth = "http", "" // as engines do for registries of this machine
		d, err = s.digest(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	return d, nil
}

func loopback(domain string) bool {
	host, _, err := net.SplitHostPort(domain)
	if err != nil {
		host = domain
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// session is one look-up.
type lookup struct {
	*Registry
	ref    imageref.Ref
	scheme string
	auth   string // of the Authorization header
}

func (s *lookup) host() string {
	if s.ref.Domain == "docker.io" {
		return "registry-1.docker.io"
	}
	return s.ref.Domain
}

// digest asks for the header alone first: registries count what is fetched.
func (s *lookup) digest(ctx context.Context) (string, error) {
	resp, err := s.manifest(ctx, http.MethodHead)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	if d := resp.Header.Get("Docker-Content-Digest"); valid(d) {
		return d, nil
	}
	if resp, err = s.manifest(ctx, http.MethodGet); err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return "", err
	}
	if len(raw) > maxManifest {
		return "", fmt.Errorf("its manifest has more than %d bytes", maxManifest)
	}
	return string(digest.Of(raw)), nil
}

func valid(digest string) bool {
	return imageref.Pinned("x.example/x@" + digest)
}

// manifest asks once, and once more with what the registry asks for.
func (s *lookup) manifest(ctx context.Context, method string) (*http.Response, error) {
	at := url.URL{Scheme: s.scheme, Host: s.host(), Path: "/v2/" + s.ref.Path + "/manifests/" + s.ref.Tag}
	for asked := false; ; asked = true {
		req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", accepted)
		if s.auth != "" {
			req.Header.Set("Authorization", s.auth)
		}
		resp, err := s.do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusUnauthorized && !asked:
			if err := s.authorize(ctx, resp.Header.Values("WWW-Authenticate")); err != nil {
				return nil, err
			}
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound:
			return nil, fmt.Errorf("%w (%s answered %s)", ErrUnknownImage, at.Host, resp.Status)
		default:
			return nil, fmt.Errorf("%s answered %s", at.Host, resp.Status)
		}
	}
}

func (s *lookup) do(req *http.Request) (*http.Response, error) {
	return cmp.Or(s.HTTP, http.DefaultClient).Do(req)
}

// authorize answers the challenges of a registry: with the password, or with a
// token that it is traded for.
func (s *lookup) authorize(ctx context.Context, challenges []string) error {
	var have registry.AuthConfig
	known := false
	if s.Credentials != nil {
		var err error
		if have, known, err = s.Credentials(s.ref.Domain); err != nil {
			return err
		}
	}
	if have.RegistryToken != "" {
		s.auth = "Bearer " + have.RegistryToken
		return nil
	}
	for _, c := range challenges {
		scheme, params := challenge(c)
		switch {
		case scheme == "bearer":
			token, err := s.token(ctx, params, have)
			s.auth = "Bearer " + token
			return err
		case scheme == "basic" && known:
			req := http.Request{Header: http.Header{}}
			req.SetBasicAuth(have.Username, have.Password)
			s.auth = req.Header.Get("Authorization")
			return nil
		}
	}
	return fmt.Errorf("%s wants credentials: docker login %s, or name the file of some with DOCKER_CONFIG", s.ref.Domain, s.ref.Domain)
}

// challenge reads one WWW-Authenticate header, such as
// Bearer realm="https://auth.example/token",service="registry".
func challenge(header string) (scheme string, params map[string]string) {
	scheme, rest, _ := strings.Cut(header, " ")
	params = map[string]string{}
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		value, quoted := strings.CutPrefix(after, `"`)
		end := `,`
		if quoted {
			end = `"`
		}
		value, rest, _ = strings.Cut(value, end)
		params[strings.ToLower(strings.Trim(key, ", "))] = value
	}
	return strings.ToLower(scheme), params
}

// token trades credentials, or none, for a token to pull with.
func (s *lookup) token(ctx context.Context, params map[string]string, have registry.AuthConfig) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && s.scheme == "https" {
		return "", fmt.Errorf("%s sends for a token to %q, which is no https address", s.ref.Domain, params["realm"])
	}
	form := url.Values{"service": {params["service"]}, "scope": {"repository:" + s.ref.Path + ":pull"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String()+"?"+form.Encode(), nil)
	if have.IdentityToken != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", have.IdentityToken)
		form.Set("client_id", "steady")
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
	}
	if err != nil {
		return "", err
	}
	if have.IdentityToken != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if have.Username != "" {
		req.SetBasicAuth(have.Username, have.Password)
	}
	resp, err := s.do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w (%s answered %s)", ErrUnknownImage, realm.Host, resp.Status)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxToken)).Decode(&answer); err != nil {
		return "", fmt.Errorf("the token of %s: %w", realm.Host, err)
	}
	return cmp.Or(answer.Token, answer.AccessToken), nil
}
