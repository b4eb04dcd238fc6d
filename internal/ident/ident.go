// Package ident makes identifiers: time-ordered ids for rows, random tokens for secrets, slugs for
// names. A name is a label; identity is an id.
package ident

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
	"unicode"
)

var enc = base32.NewEncoding("abcdefghjkmnpqrstvwxyz0123456789").WithPadding(base32.NoPadding)

// New is a fresh id: prefix, "_", 26 characters that sort by creation time to the millisecond.
func New(prefix string, now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // crypto/rand.Read never fails
	return prefix + "_" + sortable.EncodeToString(b[:])
}

var sortable = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Secret is a fresh secret: prefix and 48 hex digits (192 random bits).
func Secret(prefix string) string {
	var b [24]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// Suffix is n random lower-case base32 characters, to make a slug unique.
func Suffix(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return enc.EncodeToString(b)[:n]
}

// HashSecret is the stored form of a secret: the SHA-256 of its text, in hex. Secrets are random, so
// no salt and no slow hash are needed.
func HashSecret(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// ShownPrefix is how a secret is named once it can no longer be shown: its first 9 characters and "…".
func ShownPrefix(secret string) string {
	if len(secret) <= 9 {
		return "…"
	}
	return secret[:9] + "…"
}

// Slug folds a name to lower-case letters, digits and single hyphens, at most 40 of them; "model" when
// nothing of the name survives.
func Slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		} else {
			dash = true
		}
		if b.Len() >= 40 {
			break
		}
	}
	if b.Len() == 0 {
		return "model"
	}
	return strings.TrimRight(b.String(), "-")
}
