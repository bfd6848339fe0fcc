//! Who works on an evaluation. A lease is renewed while its holder lives, and void at once when it is known to be dead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use scrollback_store::{Lease, Leased, Store, StoreError, Tenant};

use crate::effects::{Clock, later};

/// How long a lease holds without being renewed: a machine that vanished blocks others no longer than this.
const HOLDS: Duration = Duration::from_secs(30);
/// How often it is renewed: two renewals may fail before it ends.
const RENEWED: Duration = Duration::from_secs(10);

/// A lease that is held and renewed until it is given back or dropped.
pub struct Held {
    store: Arc<dyn Store>,
    tenant: Tenant,
    what: Leased,
    holder: String,
    clock: Arc<dyn Clock>,
    renewing: tokio::task::JoinHandle<()>,
}

impl Held {
    /// Takes the lease; an error of kind `Busy` if another living process has it. `holder` is who has it now.
    pub async fn take(
        store: &Arc<dyn Store>,
        tenant: &Tenant,
        what: Leased,
        me: String,
        holder: Option<&str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let dead: Vec<String> =
            holder.filter(|holder| is_dead(holder)).map(String::from).into_iter().collect();
        store.lease(tenant, what.clone(), lease(&me, &**clock), dead, clock.now()).await?;
        Ok(Held::keep(store, tenant, what, me, clock))
    }

    /// Renews a lease that was taken when its evaluation was written.
    pub fn keep(
        store: &Arc<dyn Store>,
        tenant: &Tenant,
        what: Leased,
        holder: String,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let renewing = {
            let (store, tenant, what) = (Arc::clone(store), tenant.clone(), what.clone());
            let (holder, clock) = (holder.clone(), Arc::clone(clock));
            tokio::spawn(async move {
                loop {
                    // Real time: a lease is about other processes, whatever clock this one believes in.
                    tokio::time::sleep(RENEWED).await;
                    let again = lease(&holder, &*clock);
                    // One that fails is tried again; the lease ends if none succeeds.
                    let _ = store.lease(&tenant, what.clone(), again, Vec::new(), clock.now()).await;
                }
            })
        };
        Held {
            store: Arc::clone(store),
            tenant: tenant.clone(),
            what,
            holder,
            clock: Arc::clone(clock),
            renewing,
        }
    }

    /// Gives the lease back.
    pub async fn release(self) {
        self.renewing.abort();
        // If this fails, the next process waits until the lease ends; nothing worse can happen.
        let _ = self.store.release(&self.tenant, self.what.clone(), &self.holder, self.clock.now()).await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// A lease from now on.
pub fn lease(holder: &str, clock: &dyn Clock) -> Lease {
    Lease { holder: holder.into(), until: later(clock.now(), HOLDS) }
}

/// A name for one piece of work of this process, by which others can tell whether the process lives.
pub fn holder() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let pid = std::process::id();
        let (machine, began) = (machine().unwrap_or_default(), began(pid).unwrap_or_default());
        format!("{machine}/{pid}/{began}")
    });
    format!("{}/{}", *PROCESS, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Whether a holder is a process of this machine that is no more. Of other machines nothing is known.
pub fn is_dead(holder: &str) -> bool {
    let mut parts = holder.split('/');
    let (Some(there), Some(pid), Some(when)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let here = machine();
    let Ok(pid) = pid.parse() else { return false };
    here.as_deref() == Some(there) && began(pid).as_deref() != Some(when)
}

/// A holder as people are told: `process 4711`.
pub fn described(holder: &str) -> String {
    let mut parts = holder.split('/');
    match (parts.next(), parts.next()) {
        (Some(there), Some(pid)) if machine().as_deref() == Some(there) => format!("process {pid}"),
        (Some(_), Some(pid)) => format!("process {pid} of another machine"),
        _ => holder.into(),
    }
}

/// What tells this machine, since it was started, from every other; none where that cannot be known.
fn machine() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_string()).filter(|id| !id.is_empty())
}

/// When a living process began, in ticks since the machine did: numbers of processes are used again. One that has ended and
/// was not collected by its parent (a zombie) is not living.
fn began(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    began_of(&stat).map(String::from)
}

fn began_of(stat: &str) -> Option<&str> {
    // The name, in parentheses, may hold anything; the 22nd field is the 20th behind it, and the first is the state.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X" | "x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_is_not_living() {
        let fields = |state: &str| {
            format!("17 (a) b) {state} {}", (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(began_of(&fields("S")), Some("22"));
        assert_eq!(began_of(&fields("R")), Some("22"));
        assert_eq!(began_of(&fields("Z")), None);
        assert_eq!(began_of(&fields("X")), None);
        assert_eq!(began_of("17 (a"), None);
    }

    #[test]
    fn only_processes_of_this_machine_can_be_known_dead() {
        let me = holder();
        assert!(!is_dead(&me));
        assert_ne!(me, holder());
        let parts: Vec<&str> = me.split('/').collect();
        if let [machine, pid, began, _] = parts.as_slice()
            && !began.is_empty()
        {
            assert!(is_dead(&format!("{machine}/{pid}/1/0")), "the number was given to another process");
            assert!(!is_dead(&format!("elsewhere/{pid}/1/0")));
        }
        assert!(!is_dead("") && !is_dead("a") && !is_dead("a/b/c"));
    }
}
