package bridge

import (
	"slices"
	"strings"
)

// An era is a family of MCP revisions that open a conversation the same way.
type era uint8

const (
	legacyEra era = iota // an initialize handshake: 2024-11-05 to 2025-11-25
	modernEra            // per-request metadata: 2026-07-28 and later
)

func (e era) String() string {
	if e == modernEra {
		return "modern"
	}
	return "legacy"
}

// Revisions of MCP.
const (
	rev2024_11_05 = "2024-11-05"
	rev2025_03_26 = "2025-03-26"
	rev2025_06_18 = "2025-06-18"
	rev2025_11_25 = "2025-11-25"
	rev2026_07_28 = "2026-07-28"
)

// legacyRevisions lists the revisions with a handshake, newest first.
func legacyRevisions() []string {
	return []string{rev2025_11_25, rev2025_06_18, rev2025_03_26, rev2024_11_05}
}

// supportedVersions is what server/discover and -32022 name.
func supportedVersions() []string {
	return append([]string{rev2026_07_28}, legacyRevisions()...)
}

// supportedVersionsJSON is supportedVersions as a JSON array.
func supportedVersionsJSON() string {
	return `["` + strings.Join(supportedVersions(), `","`) + `"]`
}

func isModern(version string) bool { return version == rev2026_07_28 }

// answerVersion is the version that initialize is answered with: the one asked
// for if it is a known legacy one, else the newest legacy one not above it
// (gemini-cli drops a server that answers with a newer one than it asked for).
func answerVersion(asked string) string {
	versions := legacyRevisions()
	if slices.Contains(versions, asked) {
		return asked
	}
	for _, v := range versions {
		if v <= asked {
			return v
		}
	}
	return versions[len(versions)-1]
}

// olderThan lists the legacy revisions below version, newest first.
func olderThan(version string) []string {
	return slices.DeleteFunc(legacyRevisions(), func(v string) bool { return v >= version })
}

// Members of _meta that MCP 2026-07-28 reserves (basic, "_meta").
const (
	metaPrefix         = "io.modelcontextprotocol/"
	metaVersion        = metaPrefix + "protocolVersion"
	metaClientInfo     = metaPrefix + "clientInfo"
	metaCapabilities   = metaPrefix + "clientCapabilities"
	metaLogLevel       = metaPrefix + "logLevel"
	metaSubscriptionID = metaPrefix + "subscriptionId"
	metaServerInfo     = metaPrefix + "serverInfo"
	metaProgressToken  = "progressToken"
	metaTraceparent    = "traceparent"
	ourPrefix          = "io.github.mcpbridge/"
	metaVerdict        = ourPrefix + "verdict"
	tasksExtension     = metaPrefix + "tasks"
)

// validLevel reports whether level is an MCP logging level, and its rank.
func levelRank(level string) (rank int, ok bool) {
	rank = slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
	return rank, rank >= 0
}
