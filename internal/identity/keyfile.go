package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/steadyfleet/steady/internal/disk"
)

const (
	keyBlock    = "PRIVATE KEY"
	publicBlock = "PUBLIC KEY"
	certBlock   = "CERTIFICATE"
	// maxFile bounds what is read from a key or certificate file.
	maxFile = 1 << 20
)

// NewKey makes an Ed25519 key: for signed documents, host events and the
// client certificates of hosts.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// SaveKey writes a private key as PKCS #8 PEM, readable by its owner alone. The
// file appears whole or not at all. An existing file is refused with
// fs.ErrExist: a key is never overwritten.
func SaveKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", path, err)
	}
	return disk.Create(path, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), 0o600)
}

// LoadKey reads a private key that SaveKey wrote. It refuses a file that others
// than its owner may read or change.
func LoadKey(path string) (crypto.Signer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key %s has mode %04o: others may use it; run chmod 600 on it, and replace the key if it was exposed", path, mode)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(raw)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	return key, nil
}

// ParseKey reads a private key as SaveKey writes it.
func ParseKey(raw []byte) (crypto.Signer, error) {
	der, err := onePEM(raw, keyBlock)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	switch key := parsed.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	}
	return nil, fmt.Errorf("a %T; expected Ed25519 or ECDSA P-256", parsed)
}

// EncodePublicKey writes a public key as SPKI PEM, the form that ParsePublicKey
// and openssl pkey -pubin read.
func EncodePublicKey(key ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der}), nil
}

// ErrPrivate is in the chain of the error for a private key where a public one
// belongs.
var ErrPrivate = errors.New("this is a private key")

// ParsePublicKey reads an Ed25519 public key as EncodePublicKey writes it. It
// refuses a private key: whoever was handed one has it.
func ParsePublicKey(raw []byte) (ed25519.PublicKey, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%d bytes: at most %d are allowed", len(raw), maxFile)
	}
	if block, _ := pem.Decode(raw); block != nil && strings.HasSuffix(block.Type, keyBlock) {
		return nil, ErrPrivate
	}
	der, err := onePEM(raw, publicBlock)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a %T; expected Ed25519", parsed)
	}
	return key, nil
}

// KeyFile loads the key at path or, when there is none, makes an Ed25519 key
// and saves it there first.
func KeyFile(path string) (crypto.Signer, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := NewKey()
	if err != nil {
		return nil, err
	}
	if err := SaveKey(path, made); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return LoadKey(path)
}

func onePEM(raw []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("no PEM block %q found", kind)
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("more than one PEM block found")
	}
	return block.Bytes, nil
}
