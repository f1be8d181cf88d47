package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"sync"
	"time"

	"payledger/httpapi/edge"
)

// File is something that pages load, which is served compressed to clients that
// take gzip. It is safe for concurrent use.
//
// Pages themselves are not compressed: they hold both input of the reader and secrets, and the
// length of a compressed page would reveal these (BREACH).
type File struct {
	// Digest names the content: 16 hexadecimal digits.
	Digest string

	contentType string
	plain, gz   func() []byte // each made when it is first asked for
}

// NewFile is a file with a content.
func NewFile(contentType string, content []byte) *File {
	return &File{
		Digest: digest(content), contentType: contentType, plain: func() []byte { return content },
		gz: sync.OnceValue(func() []byte {
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
			_, _ = w.Write(content)                               // to memory, as is the next
			_ = w.Close()
			return b.Bytes()
		}),
	}
}

// NewCompressedFile is a file of which the compressed content is at hand.
func NewCompressedFile(contentType string, compressed []byte) *File {
	return &File{
		Digest: digest(compressed), contentType: contentType, gz: func() []byte { return compressed },
		plain: sync.OnceValue(func() []byte {
			r, err := gzip.NewReader(bytes.NewReader(compressed))
			if err != nil {
				panic(err) // it is a part of the program
			}
			content, err := io.ReadAll(r)
			if err != nil {
				panic(err)
			}
			return content
		}),
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// The Cache-Control of a file whose address changes with its content, and of one
// whose address does not.
const (
	cacheForever = "public, max-age=31536000, immutable"
	cacheChecked = "public, no-cache"
)

// Serve answers a GET or HEAD. named says that the address holds the digest of
// this content, so that no cache has to ask again. Parts are not served, nor is a condition kept that
// could fail: a file is small, and its failure would be no problem document.
func (f *File) Serve(w http.ResponseWriter, r *http.Request, named bool) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", cacheChecked)
	if named {
		h.Set("Cache-Control", cacheForever)
	}
	h.Add("Vary", "Accept-Encoding")
	content, tag := f.plain, f.Digest
	if edge.Accepts(r.Header["Accept-Encoding"], "gzip") {
		content, tag = f.gz, f.Digest+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	r.Header.Del("Range")
	r.Header.Del("If-Match")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content()))
}
