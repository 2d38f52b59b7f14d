"""What each act is answered with, member by member.

`ANSWERS` is complete: the door describes its responses by it, the client gives its results these
types, and a test holds the answers of a real node against them. A plain "no" is an answer like any
other, with the members of the error object. Times are RFC 3339 in UTC; what is absent was not
given.

Pydantic, which makes schemas of these, does not take typing's own TypedDict before Python 3.12.
"""

from typing import Any

from interlock.contracts import acts
from interlock.contracts.answers.audit import *
from interlock.contracts.answers.claims import *
from interlock.contracts.answers.events import *
from interlock.contracts.answers.identity import *
from interlock.contracts.answers.mail import *
from interlock.contracts.answers.parts import *
from interlock.contracts.answers.people import *
from interlock.contracts.answers.tokens import *
from interlock.contracts.answers.waking import *
from interlock.contracts.answers.work import *
from interlock.contracts.answers.workspace import *

ANSWERS: dict[type, Any] = {
    acts.SendMessage: Sent,
    acts.ListInbox: Inbox,
    acts.ReadMessage: Message,
    acts.AckMessages: Acknowledged,
    acts.ShowReceipts: Receipts,
    acts.ShowThread: Thread,
    acts.AnswerAsk: Sent,
    acts.Explain: Story,
    acts.Redact: Redacted,
    acts.Ask: Answered | Unanswered,
    acts.FindAnswer: AnswerFound | NoAnswerFound,
    acts.Search: Found,
    acts.ListMail: Mail,
    acts.PutChunk: Chunk,
    acts.DropUpload: Dropped,
    acts.AcquireClaim: Acquired | Held,
    acts.ListClaims: Claims,
    acts.CheckClaim: Checked,
    acts.CheckPaths: PathsFree | PathsClaimed,
    acts.ReportCommit: CommitReported,
    acts.RenewClaim: Renewed,
    acts.ReleaseClaim: Released,
    acts.TakeOverClaim: TakenOver,
    acts.StopWaiting: NotWaiting,
    acts.CreateTask: TaskMade,
    acts.ListTasks: Tasks,
    acts.ShowTask: TaskShown,
    acts.TakeTask: TaskTaken | TaskHeld | TaskWaits,
    acts.SubmitTask: TaskSubmitted,
    acts.CompleteTask: TaskCompleted | TaskNotDone,
    acts.FailTask: TaskEnded,
    acts.CancelTask: TaskEnded,
    acts.PrepareEvidence: EvidenceWanted,
    acts.AddEvidence: EvidenceAdded,
    acts.ShowEvidence: EvidenceShown,
    acts.CreateGate: GateMade,
    acts.ListGates: Gates,
    acts.CheckGate: GatePassed | GateNotPassed,
    acts.PrepareVerdict: VerdictWanted,
    acts.GiveVerdict: Judged,
    acts.RaiseBlocker: BlockerRaised,
    acts.ListBlockers: Blockers,
    acts.ResolveBlocker: BlockerResolved,
    acts.Whoami: Whoami,
    acts.ListAgents: Agents,
    acts.Join: Joined,
    acts.Invite: Invited,
    acts.AcceptInvitation: Joined,
    acts.ListConnections: Connections,
    acts.NameConnection: Connection,
    acts.RevokeConnection: Revoked | LockedOut,
    acts.ListGroups: Groups,
    acts.CreateGroup: GroupMade,
    acts.ListTokens: Tokens,
    acts.ShowToken: Token,
    acts.MintToken: Minted,
    acts.RotateToken: Rotated,
    acts.RevokeToken: Revoked,
    acts.ReaffirmTokens: Reaffirmed,
    acts.LabelToken: Token,
    acts.ImportTokens: Imported,
    acts.IdentifyToken: KnownToken | UnknownToken,
    acts.StartSession: SessionStarted,
    acts.Mute: Muted,
    acts.Attend: Attended,
    acts.FindSession: SessionFound,
    acts.KeepSession: Claims,
    acts.EndSession: SessionEnded,
    acts.ShowStatus: Status,
    acts.ShowStorage: Storage,
    acts.Review: Review,
    acts.Examine: Examined,
    acts.ListSettings: Settings,
    acts.ChangeSetting: SettingChanged,
    acts.Pause: Paused,
    acts.Resume: Resumed,
    acts.ListEvents: Events,
    acts.ShowLog: Log,
    acts.VerifyLog: Verified | Damaged,
    acts.SignCheckpoint: Checkpoint,
    acts.Prove: Inclusion | Growth,
    acts.ProveMany: Proofs,
    acts.ExportLog: Exported,
    acts.Backup: BackedUp,
    acts.Restore: Restored,
    acts.Rebuild: Rebuilt,
}
