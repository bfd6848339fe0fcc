//! Steps whose parts run side by side: `parallel` and `map`. What they come to does not depend on who is first.

use std::sync::Arc;

use serde_json::{Map as Members, Value};

use super::{Advancing, Going, Halt, LaneContext, StepDelivery};
use crate::error::{RunError, RunErrorKind};
use crate::passed_values::Passed;
use crate::quota::{AccountId, split};
use crate::state::{BranchSlot, BranchState, Branches, Lane, LaneChild};
use crate::{OnBranchFailure, QuotaLimits, Step, StepKind};

impl Advancing {
    /// Begins a step of branches.
    pub(super) fn enter_branches(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        input: &Passed,
        account: Option<AccountId>,
        around: LaneContext<'_>,
    ) -> Going {
        let slot = |lane: Lane| BranchSlot {
            prefix: lane.prefix.clone(),
            lane,
            share: None,
            standing: BranchState::Waiting,
        };
        let inside = |prefix: String, previous: Passed| {
            let mut inner = lane.inside(prefix, key.into(), previous, account);
            if inner.scope.is_some() {
                // What it says waits for its siblings.
                inner.own.get_or_insert_default();
            }
            inner
        };
        let slots: Vec<BranchSlot> = match &step.kind {
            StepKind::Parallel(parallel) => {
                let prefixes = parallel.branches.iter().map(|branch| format!("{key}.{}/", branch.name));
                prefixes.map(|prefix| slot(inside(prefix, input.clone()))).collect()
            }
            StepKind::Map(map) => {
                let Value::Array(items) = self.eval(&map.over, lane, key).value else {
                    let message =
                        "`over` gives no list; use `json(…)` on text, or a step with an output_schema";
                    return self.fail(
                        step,
                        lane,
                        key,
                        RunError::new(RunErrorKind::NotAList, key, message),
                        None,
                    );
                };
                let numbered = items.into_iter().zip(0u64..);
                numbered
                    .map(|(item, index)| {
                        let item = Arc::new(item);
                        let given = Passed { value: Arc::clone(&item), said: None };
                        let mut inner = inside(format!("{key}[{}]/", index + 1), given);
                        inner.item = Some((item, index));
                        slot(inner)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        let frame = Branches { slots, account, failing: false };
        self.join(step, lane, key, frame, around)
    }

    /// Gives a branch what one of its steps waits for.
    pub(super) fn deliver_to_branch(
        &mut self,
        step: &Step,
        frame: &mut Branches,
        key: &str,
        delivery: StepDelivery,
        around: LaneContext<'_>,
    ) -> Option<()> {
        let number = frame.slots.iter().position(|slot| key.starts_with(&slot.prefix))?;
        let steps = steps_of(step, number)?;
        if matches!(delivery, StepDelivery::Answered { .. }) {
            self.grant_again(frame, number);
        }
        let halt = if frame.failing { Halt::Yes } else { around.halt };
        let slot = frame.slots.get_mut(number)?;
        let going = self.deliver(steps, &mut slot.lane, key, delivery, LaneContext { halt, ..around })?;
        settle(step, frame, number, going);
        Some(())
    }

    /// Starts what may start, and ends the step when nothing is left to wait for.
    pub(super) fn join(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        mut frame: Branches,
        around: LaneContext<'_>,
    ) -> Going {
        self.fill(step, &mut frame, around);
        let undecided = frame
            .slots
            .iter()
            .any(|slot| matches!(slot.standing, BranchState::Waiting | BranchState::Active));
        let calling = frame.slots.iter().any(|slot| slot.lane.is_busy());
        if frame.failing && !calling {
            let failed = frame.slots.into_iter().find_map(|slot| match slot.standing {
                BranchState::Failed(error) => Some(error),
                _ => None,
            });
            let error =
                failed.unwrap_or_else(|| RunError::new(RunErrorKind::ProviderError, key, "a branch failed"));
            return self.fail(step, lane, key, error, None);
        }
        if undecided {
            lane.child = LaneChild::Branches(Box::new(frame));
            return Going::Waiting;
        }
        let output = self.joined(step, lane, key, frame);
        self.finish(step, lane, key, output, around, None)
    }

    /// Starts branches while there is room for them, each with its share of what may be used.
    fn fill(&mut self, step: &Step, frame: &mut Branches, around: LaneContext<'_>) {
        let most = match &step.kind {
            StepKind::Parallel(parallel) => parallel.max_concurrency,
            StepKind::Map(map) => map.max_concurrency,
            _ => 1,
        };
        while around.halt == Halt::No && !frame.failing {
            let active =
                frame.slots.iter().filter(|slot| matches!(slot.standing, BranchState::Active)).count();
            let waiting: Vec<usize> = (0..frame.slots.len())
                .filter(|number| {
                    matches!(frame.slots.get(*number).map(|slot| &slot.standing), Some(BranchState::Waiting))
                })
                .take(most.saturating_sub(active))
                .collect();
            if waiting.is_empty() {
                return;
            }
            let shares: Vec<QuotaLimits> = split(self.unshared(frame), waiting.len()).collect();
            for (number, share) in waiting.into_iter().zip(shares) {
                let (Some(steps), Some(slot)) = (steps_of(step, number), frame.slots.get_mut(number)) else {
                    continue;
                };
                let scope = slot.prefix.trim_end_matches('/').to_string();
                let opened = self.state.quota.open(&scope, share, frame.account);
                slot.share = opened.filter(|opened| Some(*opened) != frame.account);
                slot.lane.account = opened;
                slot.standing = BranchState::Active;
                let halt = if frame.failing { Halt::Yes } else { Halt::No };
                let going = self.proceed(steps, &mut slot.lane, LaneContext { halt, ..around });
                settle(step, frame, number, going);
            }
        }
    }

    /// What is left around the step that no branch under way holds.
    fn unshared(&self, frame: &Branches) -> QuotaLimits {
        let mut left = self.state.quota.left(frame.account);
        for slot in frame.slots.iter().filter(|slot| slot.lane.is_busy()) {
            if let Some(held) = slot.share.map(|share| self.state.quota.left_of(share)) {
                left.max_tokens = left.max_tokens.map(|tokens| tokens.saturating_sub(held.tokens));
                left.max_cost =
                    left.max_cost.map(|cost| crate::MicroDollars(cost.0.saturating_sub(held.micros.0)));
            }
        }
        left
    }

    /// A branch that goes on after a pause is given what is left then.
    fn grant_again(&mut self, frame: &Branches, number: usize) {
        let left = self.unshared(frame);
        if let Some(share) = frame.slots.get(number).and_then(|slot| slot.share) {
            self.state.quota.grant(share, left);
        }
    }

    /// What the branches came to, in their order; their turns are marked in the same order.
    fn joined(&mut self, step: &Step, lane: &mut Lane, key: &str, frame: Branches) -> Passed {
        let before = lane.own.as_ref().map_or(0, Vec::len);
        let base = Arc::clone(&lane.outputs);
        let mut outputs = Vec::with_capacity(frame.slots.len());
        for slot in frame.slots {
            let BranchState::Done(output) = slot.standing else {
                outputs.push(Value::Null);
                continue;
            };
            outputs.push(output.value.as_ref().clone());
            let seen = Arc::make_mut(&mut lane.outputs);
            // What it only inherited may be older than what a sibling before it came to.
            let news = slot.lane.outputs.iter().filter(|(name, (output, status))| {
                base.get(*name).is_none_or(|(known, before)| {
                    !Arc::ptr_eq(&known.value, &output.value) || before != status
                })
            });
            seen.extend(news.map(|(name, known)| (name.clone(), known.clone())));
            for turn in slot.lane.own.unwrap_or_default().into_iter().skip(before) {
                match (&mut lane.own, &lane.scope) {
                    (Some(own), _) => own.push(turn),
                    (None, Some(scope)) => {
                        let scope = Arc::clone(scope);
                        self.mark_now(&scope, key, turn);
                    }
                    (None, None) => {}
                }
            }
        }
        Passed::new(match &step.kind {
            StepKind::Parallel(parallel) => {
                let names = parallel.branches.iter().map(|branch| branch.name.clone());
                Value::Object(names.zip(outputs).collect::<Members<_, _>>())
            }
            _ => Value::Array(outputs),
        })
    }
}

/// Notes how far a branch came.
fn settle(step: &Step, frame: &mut Branches, number: usize, going: Going) {
    let fails = match &step.kind {
        StepKind::Parallel(parallel) => parallel.on_branch_failure == OnBranchFailure::Fail,
        _ => true,
    };
    let Some(slot) = frame.slots.get_mut(number) else { return };
    match going {
        Going::Waiting => {}
        Going::Over(Ok(output)) => slot.standing = BranchState::Done(output),
        Going::Over(Err(error)) => {
            slot.standing = BranchState::Failed(error);
            frame.failing |= fails;
        }
    }
}

/// The steps of a branch, or of an item.
fn steps_of(step: &Step, number: usize) -> Option<&[Step]> {
    match &step.kind {
        StepKind::Parallel(parallel) => parallel.branches.get(number).map(|branch| &*branch.steps),
        StepKind::Map(map) => Some(&map.body),
        _ => None,
    }
}
