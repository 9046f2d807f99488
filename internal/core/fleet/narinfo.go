package fleet

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// What binary caches of Nix say of a store path, in the format of
// https://nix.dev/manual/nix/latest/protocols/binary-cache.

// MaxNarinfo is the most bytes that a narinfo may have.
const MaxNarinfo = 1 << 20

// NixCacheInfo is the file nix-cache-info of a cache for a store.
func NixCacheInfo(store string) []byte {
	return []byte("StoreDir: " + store + "\nWantMassQuery: 1\nPriority: 30\n")
}

// NarinfoName is the file of a store path's narinfo in a cache.
func NarinfoName(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	hash, _, _ := strings.Cut(base, "-")
	return hash + ".narinfo"
}

// ParseNarinfo reads a narinfo, and where in the cache the archive is. A content without a FileHash
// is left empty, and a size without FileSize zero.
func ParseNarinfo(text []byte) (p StorePath, url string, err error) {
	p.Compression = "bzip2" // what is meant where a narinfo does not say
	var names []string
	var deriver string
	for line := range strings.SplitSeq(string(text), "\n") {
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok {
			return p, "", fmt.Errorf("line %.100q is not KEY: VALUE", line)
		}
		switch key {
		case "StorePath":
			p.Path = value
		case "URL":
			url = value
		case "Compression":
			p.Compression = value
		case "FileHash":
			p.Content, err = NixHash(value)
		case "FileSize":
			p.Size, err = strconv.ParseInt(value, 10, 64)
		case "NarHash":
			p.NarHash, err = NixHash(value)
		case "NarSize":
			p.NarSize, err = strconv.ParseInt(value, 10, 64)
		case "References":
			names = strings.Fields(value)
		case "Deriver":
			deriver = value
		case "Sig":
			p.Signatures = append(p.Signatures, value)
		case "CA":
			p.CA = value
		}
		if err != nil {
			return p, "", fmt.Errorf("%s: %w", key, err)
		}
	}
	if p.Path == "" || url == "" || p.NarHash == "" || p.NarSize <= 0 {
		return p, "", fmt.Errorf("StorePath, URL, NarHash or NarSize is missing")
	}
	store := p.Path[:strings.LastIndexByte(p.Path, '/')+1]
	p.References = []string{}
	for _, name := range names {
		p.References = append(p.References, store+name)
	}
	slices.Sort(p.References)
	p.References = slices.Compact(p.References)
	if deriver != "" && deriver != "unknown-deriver" {
		p.Deriver = store + deriver
	}
	return p, url, nil
}

// Narinfo is that of the path, with its archive at url in the cache.
func (p *StorePath) Narinfo(url string) []byte {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + ": " + value + "\n") }
	line("StorePath", p.Path)
	line("URL", url)
	line("Compression", p.Compression)
	line("FileHash", digest.Prefix+NixBase32(p.Content))
	line("FileSize", strconv.FormatInt(p.Size, 10))
	line("NarHash", digest.Prefix+NixBase32(p.NarHash))
	line("NarSize", strconv.FormatInt(p.NarSize, 10))
	names := make([]string, len(p.References))
	for i, r := range p.References {
		names[i] = baseOf(r)
	}
	line("References", strings.Join(names, " "))
	if p.Deriver != "" {
		line("Deriver", baseOf(p.Deriver))
	}
	for _, s := range p.Signatures {
		line("Sig", s)
	}
	if p.CA != "" {
		line("CA", p.CA)
	}
	return []byte(b.String())
}

func baseOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Fingerprint is what a signature of the path signs.
func (p *StorePath) Fingerprint() []byte {
	return []byte("1;" + p.Path + ";" + digest.Prefix + NixBase32(p.NarHash) + ";" + strconv.FormatInt(p.NarSize, 10) + ";" + strings.Join(p.References, ","))
}

// alphabet is that of Nix's base 32.
const alphabet = "0123456789abcdfghijklmnpqrsvwxyz"

// NixBase32 is a digest in Nix's own base 32.
func NixBase32(d digest.Digest) string {
	h, _ := hex.DecodeString(d.Hex())
	n := (len(h)*8 + 4) / 5
	out := make([]byte, 0, n)
	for k := n - 1; k >= 0; k-- {
		i, j := k*5/8, k*5%8
		c := uint16(h[i]) >> j
		if i+1 < len(h) {
			c |= uint16(h[i+1]) << (8 - j)
		}
		out = append(out, alphabet[c&31])
	}
	return string(out)
}

// NixHash reads a SHA-256 in any of the forms that Nix writes.
func NixHash(text string) (digest.Digest, error) {
	refused := fmt.Errorf("%.100q is no SHA-256 as Nix writes it", text)
	value, ok := strings.CutPrefix(text, digest.Prefix)
	sri := false
	if !ok {
		if value, sri = strings.CutPrefix(text, "sha256-"); !sri {
			return "", refused
		}
	}
	var h []byte
	var err error
	switch {
	case sri || len(value) == 44:
		h, err = base64.StdEncoding.DecodeString(value)
	case len(value) == 64:
		h, err = hex.DecodeString(value)
	case len(value) == 52:
		h, err = fromBase32(value)
	}
	if err != nil || len(h) != 32 {
		return "", refused
	}
	return digest.Digest(digest.Prefix + hex.EncodeToString(h)), nil
}

func fromBase32(text string) ([]byte, error) {
	h := make([]byte, 32)
	for n := range len(text) {
		c := strings.IndexByte(alphabet, text[len(text)-1-n])
		i, j := n*5/8, n*5%8
		if c < 0 {
			return nil, fmt.Errorf("%q is no digit", text[len(text)-1-n])
		}
		v := uint16(c) << j
		h[i] |= byte(v)
		if i+1 < len(h) {
			h[i+1] |= byte(v >> 8)
		} else if v>>8 != 0 {
			return nil, fmt.Errorf("it is larger than 256 bits")
		}
	}
	return h, nil
}
