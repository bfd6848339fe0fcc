//! Which conversation holds which positions: a fork reads its ancestors' entries below the place it was forked at.

use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{EntryRow, Rows, SummaryRow};
use crate::table::{ColumnValue, Scan};

/// Most ancestors a conversation may have; more can only be damage.
const MAX_DEPTH: usize = 10_000;

/// The positions one conversation holds of a record: `from` and above, below `below`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineageSegment {
    pub(crate) conversation: ConversationId,
    pub(crate) from: u64,
    pub(crate) below: u64,
}

/// The segments of a record, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub(crate) segments: Vec<LineageSegment>,
    /// Whether the last segment is all that its conversation holds. Then its bounds say nothing, and are not asked for:
    /// a database that is given them reads the whole segment rather than an index.
    whole: bool,
}

impl Lineage {
    /// Follows the parents of a conversation.
    pub(crate) async fn of<R: Rows>(rows: &mut R, conversation: &Conversation) -> Result<Self, StoreError> {
        let mut segments = Vec::new();
        let mut below = conversation.head;
        let forked = |row: &Conversation| row.forked_from().map(|(parent, at)| (parent.clone(), at));
        let mut next = (conversation.id.clone(), forked(conversation));
        loop {
            let (id, fork) = next;
            let from = fork.as_ref().map_or(0, |(_, at)| *at);
            segments.push(LineageSegment { conversation: id, from, below });
            let Some((parent, _)) = fork else { break };
            if segments.len() > MAX_DEPTH {
                return Err(StoreError::damaged("cycle among the parents of a conversation"));
            }
            below = below.min(from);
            let row: Option<Conversation> = rows.get(vec![parent.as_str().into()]).await?;
            let row = row.ok_or_else(|| StoreError::damaged("the parent of a conversation is missing"))?;
            let fork = forked(&row);
            next = (row.id, fork);
        }
        segments.reverse();
        Ok(Lineage { segments, whole: true })
    }

    /// What lies below a position of a conversation.
    pub(crate) async fn below<R: Rows>(
        rows: &mut R,
        conversation: &Conversation,
        at: u64,
    ) -> Result<Self, StoreError> {
        let upto = Conversation { head: at, ..conversation.clone() };
        Ok(Lineage { whole: false, ..Lineage::of(rows, &upto).await? })
    }

    /// What the last conversation has from its ancestors.
    pub(crate) fn ancestors(&self) -> Lineage {
        let segments = self.segments.split_last().map(|(_, before)| before.to_vec()).unwrap_or_default();
        Lineage { segments, whole: false }
    }

    /// The entries of a segment.
    fn within(&self, segment: &LineageSegment) -> Scan {
        let scan = Scan::new().equal("conversation_id", segment.conversation.as_str());
        if self.whole && Some(segment) == self.segments.last() {
            return scan;
        }
        scan.from("position", segment.from).below("position", segment.below)
    }

    /// The conversation that holds a position.
    pub(crate) fn owner(&self, position: u64) -> Option<&ConversationId> {
        let holds = |segment: &&LineageSegment| (segment.from..segment.below).contains(&position);
        self.segments.iter().find(holds).map(|segment| &segment.conversation)
    }

    /// The rows from a position on, below another, oldest first.
    pub(crate) async fn rows<R: Rows>(
        &self,
        rows: &mut R,
        from: u64,
        below: u64,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let mut found = Vec::new();
        for segment in &self.segments {
            let (from, below) = (from.max(segment.from), below.min(segment.below));
            if from < below {
                let scan = Scan::new()
                    .equal("conversation_id", segment.conversation.as_str())
                    .from("position", from)
                    .below("position", below)
                    .ascending(&["position"]);
                found.extend(rows.scan::<EntryRow>(scan).await?);
            }
        }
        Ok(found)
    }

    /// The newest rows that meet further demands, at most so many, newest first.
    pub(crate) async fn newest<R: Rows>(
        &self,
        rows: &mut R,
        limit: usize,
        demands: impl Fn(Scan) -> Scan,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let mut found = Vec::new();
        for segment in self.segments.iter().rev() {
            if found.len() >= limit || segment.from >= segment.below {
                continue;
            }
            let scan = self.within(segment).descending(&["position"]).limit(limit - found.len());
            found.extend(rows.scan::<EntryRow>(demands(scan)).await?);
        }
        Ok(found)
    }

    /// How many rows meet further demands.
    pub(crate) async fn count<R: Rows>(
        &self,
        rows: &mut R,
        demands: impl Fn(Scan) -> Scan,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for segment in &self.segments {
            count += rows.count::<EntryRow>(demands(self.within(segment))).await?;
        }
        Ok(count)
    }

    /// The segments that hold something, newest first.
    fn filled(&self) -> impl Iterator<Item = &LineageSegment> {
        self.segments.iter().rev().filter(|segment| segment.from < segment.below)
    }

    /// The entry of an evaluation with that number.
    pub(crate) async fn numbered<R: Rows>(
        &self,
        rows: &mut R,
        evaluation: &[u8],
        sequence: u64,
    ) -> Result<Option<EntryRow>, StoreError> {
        for segment in self.filled() {
            // Nothing but the columns of the unique index, so that nothing else is looked at.
            let scan = Scan::new()
                .equal("conversation_id", segment.conversation.as_str())
                .equal("evaluation_id", evaluation)
                .equal("sequence", sequence);
            let found = rows.scan::<EntryRow>(scan).await?.pop();
            if let Some(row) = found.filter(|row| row.position < segment.below) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The next number of an evaluation.
    pub(crate) async fn next_sequence<R: Rows>(
        &self,
        rows: &mut R,
        evaluation: &[u8],
    ) -> Result<u64, StoreError> {
        for segment in self.filled() {
            // Nothing but the columns of the unique index. What a parent said after the fork does not count here, so all
            // of an evaluation is looked at there; here the last is enough.
            let mut scan = Scan::new()
                .equal("conversation_id", segment.conversation.as_str())
                .equal("evaluation_id", evaluation)
                .descending(&["sequence"]);
            if self.whole && Some(segment) == self.segments.last() {
                scan = scan.limit(1);
            }
            let said = rows.scan::<EntryRow>(scan).await?;
            if let Some(last) = said.iter().find(|row| row.position < segment.below) {
                return Ok(last.sequence.unwrap_or(0) + 1);
            }
        }
        Ok(0)
    }

    /// The summary in force.
    pub(crate) async fn summary<R: Rows>(&self, rows: &mut R) -> Result<Option<SummaryRow>, StoreError> {
        for segment in self.segments.iter().rev() {
            let scan = Scan::new()
                .equal("conversation_id", segment.conversation.as_str())
                .below("position", segment.below)
                .descending(&["position"])
                .limit(1);
            if let Some(found) = rows.scan::<SummaryRow>(scan).await?.pop() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The conversation of that id in the tenant.
pub(crate) async fn conversation<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Conversation, StoreError> {
    let found: Option<Conversation> = rows.get(vec![id.as_str().into()]).await?;
    found
        .filter(|found| found.tenant == *tenant)
        .ok_or_else(|| StoreError::not_found(format!("conversation {id}")))
}

/// The conversation with that key in the tenant.
pub(crate) async fn with_key<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    key: &str,
) -> Result<Option<Conversation>, StoreError> {
    let scan = Scan::new().equal("tenant", tenant.as_str()).equal("key", key).limit(1);
    Ok(rows.scan::<Conversation>(scan).await?.pop())
}

/// The conversations forked from one, and from those, and so on.
pub(crate) async fn descendants<R: Rows>(
    rows: &mut R,
    id: &ConversationId,
) -> Result<Vec<Conversation>, StoreError> {
    let (mut found, mut open): (Vec<Conversation>, Vec<ConversationId>) = (Vec::new(), vec![id.clone()]);
    while let Some(parent) = open.pop() {
        let scan = Scan::new().equal("parent_id", ColumnValue::from(parent.as_str())).ascending(&["id"]);
        for child in rows.scan::<Conversation>(scan).await? {
            if child.fork_position.is_none() {
                continue;
            }
            open.push(child.id.clone());
            found.push(child);
        }
    }
    Ok(found)
}
