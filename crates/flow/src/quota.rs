//! Quotas: what calls may use, counted before and after each of them. Pure arithmetic on whole numbers.
//!
//! Every limit of a flow is an account, opened when its step starts. A call must have room in its account and in every
//! account around it. Branches that run at once get accounts of their own with an equal share of what is left.

use serde::Serialize;

use crate::{MicroDollars, QuotaLimits};

/// One account of a [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountId(usize);

/// The accounts of a run.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    accounts: Vec<Account>,
}

#[derive(Clone, Debug)]
struct Account {
    /// Whose limit it is: `run`, or the key of a step or branch.
    scope: String,
    parent: Option<AccountId>,
    tokens: QuotaMeter,
    micros: QuotaMeter,
}

/// One unit of an account.
#[derive(Clone, Copy, Debug, Default)]
struct QuotaMeter {
    limit: Option<u64>,
    used: u64,
    reserved: u64,
}

impl QuotaMeter {
    fn left(self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used.saturating_add(self.reserved)))
    }

    fn is_over(self) -> bool {
        self.limit.is_some_and(|limit| self.used.saturating_add(self.reserved) >= limit)
    }
}

/// Tokens and money of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tokens, in and out together.
    pub tokens: u64,
    /// Money.
    pub micros: MicroDollars,
}

/// A limit that has no room for a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// What is limited: `tokens` or `cost_usd`.
    pub unit: &'static str,
    /// How much there is in all.
    #[serde(serialize_with = "shortest")]
    pub limit: f64,
    /// Whose limit it is: `run`, or a key.
    pub scope: String,
    /// What was used of it.
    #[serde(serialize_with = "shortest")]
    pub used: f64,
    /// What calls under way have reserved.
    #[serde(serialize_with = "shortest")]
    pub reserved: f64,
    /// What was asked for.
    #[serde(serialize_with = "shortest")]
    pub requested: f64,
}

/// A whole number without a fraction: tokens are counted.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn shortest<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // 2^53: every whole number up to here is exact.
    if number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(number) {
        return serializer.serialize_u64(*number as u64);
    }
    serializer.serialize_f64(*number)
}

impl Breach {
    /// What helps. A branch has a share of what is left around it, and a step's own limit stands in the flow.
    fn remedy(&self) -> String {
        let flag = if self.unit == "tokens" { "--max-tokens N" } else { "--max-cost USD" };
        let last = self.scope.rsplit('/').next().unwrap_or_default();
        if self.scope == "run" || last.contains(['.', '[']) {
            format!("continue with `scrollback resume RUN {flag}`")
        } else {
            format!("raise it at the step {} of the flow, and begin a new run", self.scope)
        }
    }
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Breach { unit, limit, scope, used, reserved, requested } = self;
        let of = if *unit == "tokens" { "tokens" } else { "dollars" };
        write!(
            f,
            "the limit of {limit} {of} for {scope} has no room: {used} used, {reserved} reserved, {requested} \
             asked for; {}",
            self.remedy()
        )
    }
}

impl Quota {
    /// Opens an account inside another. What is limited nowhere needs none: `parent` comes back.
    pub fn open(&mut self, scope: &str, limits: QuotaLimits, parent: Option<AccountId>) -> Option<AccountId> {
        if limits.max_tokens.is_none() && limits.max_cost.is_none() {
            return parent;
        }
        let meter = |limit| QuotaMeter { limit, ..QuotaMeter::default() };
        self.accounts.push(Account {
            scope: scope.into(),
            parent,
            tokens: meter(limits.max_tokens),
            micros: meter(limits.max_cost.map(|cost| cost.0)),
        });
        Some(AccountId(self.accounts.len() - 1))
    }

    /// The account and all around it, the innermost first.
    fn around(&self, id: Option<AccountId>) -> impl Iterator<Item = (AccountId, &Account)> {
        let get = |id: AccountId| self.accounts.get(id.0).map(|account| (id, account));
        std::iter::successors(id.and_then(get), move |(_, account)| account.parent.and_then(get))
    }

    /// Reserves room for a call in every limit around it, or in none.
    pub fn reserve(&mut self, id: Option<AccountId>, wanted: Amount) -> Result<(), Breach> {
        for (_, account) in self.around(id) {
            let room = |meter: QuotaMeter, wanted: u64| meter.left().is_none_or(|left| wanted <= left);
            if !room(account.tokens, wanted.tokens) {
                return Err(account.breach_of_tokens(wanted.tokens));
            }
            if !room(account.micros, wanted.micros.0) {
                return Err(account.breach_of_money(wanted.micros));
            }
        }
        self.each(id, |account| {
            account.tokens.reserved += wanted.tokens;
            account.micros.reserved += wanted.micros.0;
        });
        Ok(())
    }

    /// Gives a reservation back and charges what was used in its place, be it more.
    pub fn settle(&mut self, id: Option<AccountId>, reserved: Amount, used: Amount) {
        self.each(id, |account| {
            account.tokens.reserved = account.tokens.reserved.saturating_sub(reserved.tokens);
            account.micros.reserved = account.micros.reserved.saturating_sub(reserved.micros.0);
            account.tokens.used = account.tokens.used.saturating_add(used.tokens);
            account.micros.used = account.micros.used.saturating_add(used.micros.0);
        });
    }

    /// The limit around an account that has nothing left, if there is one: no iteration starts then.
    pub fn spent(&self, id: Option<AccountId>) -> Option<Breach> {
        self.around(id).find_map(|(_, account)| {
            if account.tokens.is_over() {
                Some(account.breach_of_tokens(0))
            } else if account.micros.is_over() {
                Some(account.breach_of_money(MicroDollars(0)))
            } else {
                None
            }
        })
    }

    /// What is left in the tightest limit around an account, of tokens and of money.
    pub fn left(&self, id: Option<AccountId>) -> QuotaLimits {
        let least = |meter: fn(&Account) -> QuotaMeter| {
            self.around(id).filter_map(|(_, account)| meter(account).left()).min()
        };
        QuotaLimits {
            max_tokens: least(|account| account.tokens),
            max_cost: least(|account| account.micros).map(MicroDollars),
        }
    }

    /// What is left of a share that was handed out.
    pub fn left_of(&self, id: AccountId) -> Amount {
        let left = |meter: QuotaMeter| meter.left().unwrap_or(0);
        self.accounts.get(id.0).map_or_else(Amount::default, |account| Amount {
            tokens: left(account.tokens),
            micros: MicroDollars(left(account.micros)),
        })
    }

    /// Changes what a share has left, as when a branch goes on after a pause.
    pub fn grant(&mut self, id: AccountId, left: QuotaLimits) {
        if let Some(account) = self.accounts.get_mut(id.0) {
            let raise = |meter: &mut QuotaMeter, left: Option<u64>| {
                meter.limit = left.map(|left| left.saturating_add(meter.used));
            };
            raise(&mut account.tokens, left.max_tokens);
            raise(&mut account.micros, left.max_cost.map(|cost| cost.0));
        }
    }

    /// Sets another limit, as when a run is continued with more.
    pub fn relimit(&mut self, id: AccountId, limits: QuotaLimits) {
        if let Some(account) = self.accounts.get_mut(id.0) {
            account.tokens.limit = limits.max_tokens;
            account.micros.limit = limits.max_cost.map(|cost| cost.0);
        }
    }

    fn each(&mut self, id: Option<AccountId>, change: impl Fn(&mut Account)) {
        let mut next = id;
        while let Some(account) = next.and_then(|id| self.accounts.get_mut(id.0)) {
            change(account);
            next = account.parent;
        }
    }
}

impl Account {
    fn breach_of_tokens(&self, requested: u64) -> Breach {
        let QuotaMeter { limit, used, reserved } = self.tokens;
        Breach {
            unit: "tokens",
            limit: limit.unwrap_or(0) as f64,
            scope: self.scope.clone(),
            used: used as f64,
            reserved: reserved as f64,
            requested: requested as f64,
        }
    }

    fn breach_of_money(&self, requested: MicroDollars) -> Breach {
        let dollars = |micros: u64| MicroDollars(micros).dollars();
        let QuotaMeter { limit, used, reserved } = self.micros;
        Breach {
            unit: "cost_usd",
            limit: dollars(limit.unwrap_or(0)),
            scope: self.scope.clone(),
            used: dollars(used),
            reserved: dollars(reserved),
            requested: requested.dollars(),
        }
    }
}

/// Equal shares of what is left for `branches` that run at once; the odd ones go to the first.
///
/// ```
/// use scrollback_flow::{QuotaLimits, MicroDollars, quota::split};
/// let left = QuotaLimits { max_tokens: Some(10), max_cost: Some(MicroDollars(2)) };
/// let shares: Vec<_> = split(left, 3).map(|share| (share.max_tokens, share.max_cost)).collect();
/// assert_eq!(shares[0], (Some(4), Some(MicroDollars(1))));
/// assert_eq!(shares[2], (Some(3), Some(MicroDollars(0))));
/// ```
pub fn split(left: QuotaLimits, branches: usize) -> impl Iterator<Item = QuotaLimits> {
    let count = branches.max(1) as u64;
    let share = move |whole: u64, place: u64| whole / count + u64::from(place < whole % count);
    (0..branches as u64).map(move |place| QuotaLimits {
        max_tokens: left.max_tokens.map(|tokens| share(tokens, place)),
        max_cost: left.max_cost.map(|cost| MicroDollars(share(cost.0, place))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(max: u64) -> QuotaLimits {
        QuotaLimits { max_tokens: Some(max), max_cost: None }
    }

    fn of(tokens: u64) -> Amount {
        Amount { tokens, micros: MicroDollars(0) }
    }

    #[test]
    fn a_call_needs_room_in_every_limit_around_it_and_takes_it_from_all() {
        let mut quota = Quota::default();
        let run = quota.open("run", tokens(100), None);
        let step = quota.open("chat", tokens(60), run);
        assert_eq!(quota.open("free", QuotaLimits::default(), step), step, "no limit, no account");
        assert_eq!(quota.reserve(step, of(50)), Ok(()));
        let breach = quota.reserve(step, of(20)).err();
        assert_eq!(breach.as_ref().map(|breach| breach.scope.as_str()), Some("chat"));
        assert_eq!(
            breach.map(|breach| (breach.limit, breach.used, breach.reserved, breach.requested)),
            Some((60.0, 0.0, 50.0, 20.0))
        );
        quota.settle(step, of(50), of(30));
        assert_eq!(quota.left(step), tokens(30));
        assert_eq!(quota.left(run), tokens(70));
        assert_eq!(quota.reserve(run, of(71)).map_err(|breach| breach.scope), Err("run".into()));
    }

    #[test]
    fn what_was_used_beyond_the_limit_is_kept_and_the_next_call_is_refused() {
        let mut quota = Quota::default();
        let run = quota.open("run", tokens(40), None);
        assert_eq!(quota.reserve(run, of(40)), Ok(()));
        quota.settle(run, of(40), of(55));
        assert_eq!(quota.left(run), tokens(0));
        assert!(quota.spent(run).is_some_and(|breach| breach.used > breach.limit));
        assert!(quota.reserve(run, of(1)).is_err());
        if let Some(run) = run {
            quota.relimit(run, tokens(60));
        }
        assert_eq!((quota.left(run), quota.reserve(run, of(5))), (tokens(5), Ok(())));
    }

    #[test]
    fn shares_add_up_and_a_branch_cannot_use_its_siblings() {
        let mut quota = Quota::default();
        let run = quota.open("run", tokens(100), None);
        let shares: Vec<QuotaLimits> = split(quota.left(run), 3).collect();
        assert_eq!(shares.iter().filter_map(|share| share.max_tokens).collect::<Vec<_>>(), [34, 33, 33]);
        let first = quota.open("fan.a", tokens(34), run);
        let second = quota.open("fan.b", tokens(33), run);
        assert!(quota.reserve(first, of(40)).is_err(), "though the run has room");
        assert_eq!(quota.reserve(second, of(33)), Ok(()));
        quota.settle(second, of(33), of(3));
        assert_eq!(quota.left(run), tokens(97));
    }
}
