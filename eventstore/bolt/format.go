package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	bbolt "go.etcd.io/bbolt"
)

// FormatVersion is the version of the file's format: of the buckets, their keys and values, and the
// records in them. A change of any of these raises it. It is written when a file is made and read
// before anything else of the content.
const FormatVersion = 9

// oldFormat is the oldest one that is read. It has what a cluster of earlier versions knew of its
// groups besides, which nobody uses. Before version 7 there were no details; version 7, which had
// them in a bucket of their own, is not read. Before version 9 the file said which idempotency keys
// were still remembered.
const (
	oldFormat     = 5
	skippedFormat = 7
)

// formatName is what "format" among the meta values begins with; the version
// follows.
const formatName = "payledger event log "

func formatOf(version int) string { return fmt.Sprintf("%s%02d", formatName, version) }

// renewFormat makes a file of an older format, which is about to be written to, one of this.
func renewFormat(meta *bbolt.Bucket) error {
	if string(meta.Get(keyFormat)) == formatOf(FormatVersion) {
		return nil
	}
	return errors.Join(meta.Delete([]byte("spans")), meta.Put(keyFormat, []byte(formatOf(FormatVersion))))
}

// checkFormat returns an *OpenError unless this program reads the format.
func checkFormat(path string, format []byte) error {
	number, ours := strings.CutPrefix(string(format), formatName)
	version, err := strconv.Atoi(number)
	detail := fmt.Sprintf("format %d, this program reads format %d", version, FormatVersion)
	switch {
	case !ours || err != nil:
		return foreign(path, "a bbolt file without our name in it")
	case version > FormatVersion:
		return &OpenError{Path: path, Err: ErrVersion, Detail: detail, Advice: "run the version that wrote it, or a newer one"}
	case version < oldFormat || version == skippedFormat:
		// The program that wrote the log can read it, and this one can restore what that
		// exports.
		dir := filepath.Dir(path)
		details := ""
		if version == skippedFormat {
			details = " --with-details"
		}
		advice := fmt.Sprintf("run \"payledger export --format bundle%s --output LOG.tar --data %s\" with the version that wrote it, "+
			"then \"payledger restore LOG.tar --data %s --force\" with this one", details, dir, dir)
		return &OpenError{Path: path, Err: ErrOutdated, Detail: detail, Advice: advice}
	}
	return nil
}
