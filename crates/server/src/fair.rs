//! Turns at something of which there is only so much: tenants that wait take turns, so that one tenant that floods does not keep
//! the others from theirs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrollback_store::Tenant;
use tokio::sync::oneshot;

/// A bounded number of turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Who waits, by tenant, first come first.
    waiting: HashMap<Tenant, VecDeque<oneshot::Sender<Turn>>>,
    /// The tenants that wait, in the order in which their next one gets a turn.
    order: VecDeque<Tenant>,
}

/// A turn; the next tenant's when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Turns>);

impl Turns {
    /// So many turns at once.
    pub(crate) fn new(count: usize) -> Self {
        Turns(Arc::new(Mutex::new(State {
            free: count.max(1),
            waiting: HashMap::new(),
            order: VecDeque::new(),
        })))
    }

    /// A turn, when it is the tenant's.
    pub(crate) async fn take(&self, tenant: &Tenant) -> Turn {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Some(self.clone()));
            }
            let (given, turn) = oneshot::channel();
            let line = state.waiting.entry(tenant.clone()).or_default();
            line.push_back(given);
            if line.len() == 1 {
                state.order.push_back(tenant.clone());
            }
            turn
        };
        // Those who wait are never forgotten: the state outlives them.
        turn.await.unwrap_or(Turn(None))
    }

    /// Gives a turn that ended to the next who waits.
    fn pass_on(&self) {
        let mut state = self.state();
        while let Some(tenant) = state.order.pop_front() {
            let Some(line) = state.waiting.get_mut(&tenant) else { continue };
            let next = line.pop_front();
            if line.is_empty() {
                state.waiting.remove(&tenant);
            } else {
                state.order.push_back(tenant);
            }
            let Some(next) = next else { continue };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // That one left. The turn must not be passed on again while the state is held.
                Err(mut turn) => turn.0 = None,
            }
        }
        state.free += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).unwrap()
    }

    #[tokio::test]
    async fn a_tenant_that_floods_does_not_keep_others_from_their_turn() {
        let turns = Turns::new(1);
        let first = turns.take(&tenant("flood")).await;
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (name, count) in [("flood", 50), ("quiet", 3), ("other", 1)] {
            for _ in 0..count {
                let (turns, served) = (turns.clone(), Arc::clone(&served));
                tasks.push(tokio::spawn(async move {
                    let _turn = turns.take(&tenant(name)).await;
                    served.lock().unwrap().push(name);
                }));
            }
            // All of them wait before the next tenant comes.
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let served = served.lock().unwrap();
        let last = |name: &str| served.iter().rposition(|served| *served == name).unwrap();
        assert!(last("other") <= 3 && last("quiet") <= 7, "{served:?}");
        assert_eq!(served.len(), 54);
    }

    #[tokio::test]
    async fn turns_of_those_who_left_are_not_lost() {
        let turns = Turns::new(2);
        let held = [turns.take(&tenant("a")).await, turns.take(&tenant("a")).await];
        for _ in 0..5 {
            let waiting = turns.clone();
            let left = tokio::spawn(async move { drop(waiting.take(&tenant("b")).await) });
            tokio::task::yield_now().await;
            left.abort();
            let _ = left.await;
        }
        drop(held);
        let _both = [turns.take(&tenant("c")).await, turns.take(&tenant("c")).await];
        assert_eq!(turns.state().free, 0);
        assert!(turns.state().waiting.is_empty());
    }
}
