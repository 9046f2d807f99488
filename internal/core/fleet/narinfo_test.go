package fleet

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// real is a narinfo as cache.nixos.org serves it, with the key and signature of that cache.
const real = `StorePath: /nix/store/syd87l2rxw8cbsxmxl853h0r6pdwhwjr-curl-7.82.0-bin
URL: nar/05ra3y72i3qjri7xskf9qj8kb29r6naqy1sqpbs3azi3xcigmj56.nar.xz
Compression: xz
FileHash: sha256:05ra3y72i3qjri7xskf9qj8kb29r6naqy1sqpbs3azi3xcigmj56
FileSize: 68852
NarHash: sha256:1b4sb93wp679q4zx9k1ignby1yna3z7c4c2ri3wphylbc2dwsys0
NarSize: 196040
References: 0jqd0rlxzra1rs38rdxl43yh6rxchgc6-curl-7.82.0 6w8g7njm4mck5dmjxws0z1xnrxvl81xa-glibc-2.34-115 j5jxw3iy7bbz4a57fh9g2xm2gxmyal8h-zlib-1.2.12 yxvjs9drzsphm9pcf42a4byzj1kb9m7k-openssl-1.1.1n
Deriver: 5rwxzi7pal3qhpsyfc16gzkh939q1np6-curl-7.82.0.drv
Sig: cache.nixos.org-1:TsTTb3WGTZKphvYdBHXwo6weVILmTytUjLB+vcX89fOjjRicCHmKA4RCPMVLkj6TMJ4GMX3HPVWRdD1hkeKZBQ==
`

func TestNarinfoOfAPublicCache(t *testing.T) {
	p, url, err := ParseNarinfo([]byte(real))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.Narinfo(url)); got != real {
		t.Error(cmp.Diff(real, got))
	}
	if d, err := NixHash("sha256:05ra3y72i3qjri7xskf9qj8kb29r6naqy1sqpbs3azi3xcigmj56"); err != nil || NixBase32(d) != "05ra3y72i3qjri7xskf9qj8kb29r6naqy1sqpbs3azi3xcigmj56" {
		t.Errorf("%s, %v", d, err)
	}
	for _, bad := range []string{"", "StorePath", strings.Replace(real, "NarHash: sha256:1", "NarHash: sha256:", 1), strings.Replace(real, "NarSize: ", "NarSize: x", 1), strings.Replace(real, "URL", "Url", 1)} {
		if _, _, err := ParseNarinfo([]byte(bad)); err == nil {
			t.Errorf("read:\n%s", bad)
		}
	}
}

// TestHashForms reads back every form that Nix writes of a hash.
func TestHashForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := digest.Of(rapid.SliceOf(rapid.Byte()).Draw(t, "content"))
		for _, form := range []string{string(d), digest.Prefix + NixBase32(d)} {
			if got, err := NixHash(form); err != nil || got != d {
				t.Fatalf("%s is read as %s, %v", form, got, err)
			}
		}
	})
	const sri = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	if d, err := NixHash(sri); err != nil || d != digest.Of(nil) {
		t.Errorf("%s, %v", d, err)
	}
	for _, bad := range []string{"sha256:", "sha1:0000", sri + "A", "sha256:" + strings.Repeat("z", 52), "sha256:" + strings.Repeat("e", 52)} {
		if d, err := NixHash(bad); err == nil {
			t.Errorf("%s is read as %s", bad, d)
		}
	}
}

// TestFingerprint is what Nix's own manual describes; that Nix takes its signature,
// TestNixPathByPath of the agent shows.
func TestFingerprint(t *testing.T) {
	p, _, err := ParseNarinfo([]byte(real))
	if err != nil {
		t.Fatal(err)
	}
	const want = "1;/nix/store/syd87l2rxw8cbsxmxl853h0r6pdwhwjr-curl-7.82.0-bin;sha256:1b4sb93wp679q4zx9k1ignby1yna3z7c4c2ri3wphylbc2dwsys0;196040;" +
		"/nix/store/0jqd0rlxzra1rs38rdxl43yh6rxchgc6-curl-7.82.0,/nix/store/6w8g7njm4mck5dmjxws0z1xnrxvl81xa-glibc-2.34-115,/nix/store/j5jxw3iy7bbz4a57fh9g2xm2gxmyal8h-zlib-1.2.12,/nix/store/yxvjs9drzsphm9pcf42a4byzj1kb9m7k-openssl-1.1.1n"
	if got := string(p.Fingerprint()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// The signature of the public cache over it, by the key that NixOS trusts.
	key, _ := base64.StdEncoding.DecodeString("6NCHdD59X431o0gWypbMrAURkbJ16ZPMQFGspcDShjY=")
	sig, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Signatures[0], "cache.nixos.org-1:"))
	if !ed25519.Verify(key, p.Fingerprint(), sig) {
		t.Error("the signature of the public cache does not verify")
	}
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "paths")
		name := func(i int) string { return "/nix/store/" + strings.Repeat("abcdfghijkls"[i:i+1], 32) + "-p" }
		var c Closure
		for i := range n {
			p := StorePath{Path: name(i), NarHash: digest.Of(nil), NarSize: 1, Content: digest.Of(nil), Size: 1, Compression: "none"}
			for j := range n {
				// A path refers to itself and to those with a larger number: no cycles.
				if j >= i && rapid.Bool().Draw(t, "refers") {
					p.References = append(p.References, name(j))
				}
			}
			c.Paths = append(c.Paths, p)
		}
		c.Type = TypeClosure
		c.Order()
		if err := CheckClosure(&Nix{Path: name(0)}, &c); err != nil || len(c.Paths) != n {
			t.Fatalf("%d of %d paths: %v", len(c.Paths), n, err)
		}
	})
}

// FuzzNarinfo: what is read is the same when it is written and read again, where it is fit for a
// list of store paths.
func FuzzNarinfo(f *testing.F) {
	f.Add([]byte(real))
	f.Add([]byte("StorePath: /nix/store/x\nURL: x\nNarHash: sha256:0\nNarSize: 1\nReferences: a  a b\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, url, err := ParseNarinfo(raw)
		if err != nil {
			return
		}
		if p.Path == "" || url == "" || p.NarSize <= 0 {
			t.Fatalf("accepted %+v at %q", p, url)
		}
		c := Closure{Type: TypeClosure, Paths: []StorePath{p}}
		if CheckClosure(&Nix{Path: p.Path}, &c) != nil {
			return
		}
		again, at, err := ParseNarinfo(p.Narinfo(url))
		if err != nil || at != url || !cmp.Equal(again, p) {
			t.Fatalf("%v: %+v became %+v", err, p, again)
		}
	})
}
