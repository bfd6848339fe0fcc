//! Long tasks by agents that know nothing but what they are shown: under `auto(8k)` they find values from early results when
//! they need them late, under `token_budget(8k)` they do not.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrollback_agent::BoxFuture;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{ModelInfo, Provider, ProviderError, ReplyStream, Request, Scripted};
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::tool;
use scrollback_core::manager::parse;
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Record, Slot};
use serde_json::{Map, Value, json};

/// Records that are looked up, one a step.
const STEPS: usize = 30;

/// A field of a record: its name, and its value by number.
type Field = (&'static str, fn(usize) -> String);

/// What an agent does: it looks up records, and then acts on early ones.
#[derive(Clone, Copy, Debug)]
struct Task {
    system: &'static str,
    user: &'static str,
    /// The tool that looks up a record by this argument.
    look: (&'static str, &'static str),
    id: fn(usize) -> String,
    /// What a record holds beside its id.
    fields: &'static [Field],
    /// The tool that is called at the end, for these records.
    act: &'static str,
    on: &'static [usize],
}

const TASKS: [Task; 10] = [
    Task {
        system: "You look after orders.",
        user: "Look up all orders, then refund the first.",
        look: ("get_order", "order_id"),
        id: |n| format!("W{}", 4000 + n),
        fields: &[("payment_id", |n| format!("card_{}", 7000 + n))],
        act: "refund",
        on: &[0],
    },
    Task {
        system: "You read the files of a project.",
        user: "Read all modules, then write the ports of the first two into the index.",
        look: ("read_file", "path"),
        id: |n| format!("src/module_{n}.toml"),
        fields: &[("port", |n| format!("{}", 18_000 + 7 * n)), ("owner", |n| format!("team_{}", n * 3))],
        act: "write_index",
        on: &[0, 1],
    },
    Task {
        system: "You answer tickets.",
        user: "Read every ticket. Afterwards assign tickets two and three to those who opened them.",
        look: ("get_ticket", "ticket"),
        id: |n| format!("TCK-{}", 310 + n),
        fields: &[("opened_by", |n| format!("mia_li_{}", 3668 + n)), ("queue", |n| format!("Q{}", 10 + n))],
        act: "assign",
        on: &[2, 3],
    },
    Task {
        system: "You run servers.",
        user: "Check all hosts. Then restart the first, and the fifth.",
        look: ("check_host", "host"),
        id: |n| format!("node-{}.example.org", 100 + n),
        fields: &[("address", |n| format!("10.0.{n}.{}", 20 + n)), ("unit", |n| format!("web_{n}.service"))],
        act: "restart",
        on: &[0, 4],
    },
    Task {
        system: "You book flights.",
        user: "Look at all reservations, then change the second one.",
        look: ("get_reservation", "reservation_id"),
        id: |n| format!("N{}K{}", n % 10, 500 + n),
        fields: &[
            ("flight_number", |n| format!("HAT{}", 100 + n)),
            ("certificate", |n| format!("certificate_{}", 4_856_383 + n)),
        ],
        act: "change",
        on: &[1],
    },
    Task {
        system: "أنت تدير الطلبات.",
        user: "اقرأ كل الطلبات ثم ألغ الطلب الأول.",
        look: ("get_order", "order_id"),
        id: |n| format!("طلب_{}", 4000 + n),
        fields: &[("payment_id", |n| format!("بطاقة_{}", 7000 + n))],
        act: "cancel",
        on: &[0],
    },
    Task {
        system: "你负责处理订单。",
        user: "查看所有订单,然后退还第二个订单的款项。",
        look: ("get_order", "order_id"),
        id: |n| format!("订单_{}", 4000 + n),
        fields: &[("payment_id", |n| format!("卡_{}", 7000 + n))],
        act: "refund",
        on: &[1],
    },
    Task {
        system: "Ты ведёшь заказы.",
        user: "Просмотри все заказы, затем отмени первый.",
        look: ("get_order", "order_id"),
        id: |n| format!("заказ_{}", 4000 + n),
        fields: &[("payment_id", |n| format!("карта_{}", 7000 + n))],
        act: "cancel",
        on: &[0],
    },
    Task {
        system: "आप ऑर्डर संभालते हैं।",
        user: "सभी ऑर्डर देखें, फिर तीसरा रद्द करें।",
        look: ("get_order", "order_id"),
        id: |n| format!("आदेश_{}", 4000 + n),
        fields: &[("payment_id", |n| format!("कार्ड_{}", 7000 + n))],
        act: "cancel",
        on: &[2],
    },
    Task {
        system: "Διαχειρίζεσαι παραγγελίες.",
        user: "Δες όλες τις παραγγελίες και ακύρωσε την πρώτη.",
        look: ("get_order", "order_id"),
        id: |n| format!("παραγγελία_{}", 4000 + n),
        fields: &[("payment_id", |n| format!("κάρτα_{}", 7000 + n))],
        act: "cancel",
        on: &[0],
    },
];

impl Task {
    /// What the tool says about a record: its fields among much else.
    fn result(&self, n: usize) -> String {
        let mut record = Map::new();
        record.insert(self.look.1.into(), (self.id)(n).into());
        let note = "Nothing else is known about this one, and what is said here is only there to take room. ";
        record.insert("note".into(), note.repeat(16).into());
        for (name, value) in self.fields {
            record.insert((*name).into(), value(n).into());
        }
        Value::Object(record).to_string()
    }

    /// The arguments of a call at the end.
    fn wanted(&self, n: usize) -> Value {
        let mut wanted = Map::new();
        wanted.insert(self.look.1.into(), (self.id)(n).into());
        for (name, value) in self.fields {
            wanted.insert((*name).into(), value(n).into());
        }
        wanted.into()
    }
}

/// A model that looks up one record after the other, and then acts with the values that its request shows.
#[derive(Debug)]
struct Reader {
    task: Task,
    calls: AtomicUsize,
    requests: Mutex<Vec<Vec<String>>>,
}

impl Reader {
    /// The value of a field of a record, as the texts show it: behind the record's id.
    fn seen(texts: &[String], id: &str, field: &str) -> Option<String> {
        // Vowel signs of Devanagari are no letters by themselves.
        let of_value = |letter: char| {
            letter.is_alphanumeric() || "_.-/".contains(letter) || ('\u{900}'..='\u{97f}').contains(&letter)
        };
        let all = texts.join("\n");
        all.match_indices(id).find_map(|(at, _)| {
            let behind = all.get(at + id.len()..)?;
            let (_, value) = behind.split_once(field)?;
            let value = value.trim_start_matches(['"', ':', ' ', '=', '\\']);
            let end = value.find(|letter| !of_value(letter)).unwrap_or(value.len());
            value.get(..end).map(String::from)
        })
    }

    /// What it says to a request: a call, or that it is done.
    fn answer(&self, texts: &[String]) -> String {
        let step = self.calls.fetch_add(1, Ordering::SeqCst);
        let task = self.task;
        if step < STEPS {
            return format!(
                "- calls: [{{name: {}, arguments: {{{}: \"{}\"}}}}]",
                task.look.0,
                task.look.1,
                (task.id)(step)
            );
        }
        let Some(record) = task.on.get(step - STEPS) else { return "- reply: done".into() };
        let id = (task.id)(*record);
        let mut arguments = json!({ task.look.1: id });
        for (name, _) in task.fields {
            arguments[*name] = Reader::seen(texts, &id, name).into();
        }
        format!("- calls: [{{name: {}, arguments: {arguments}}}]", task.act)
    }
}

impl Provider for Reader {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: ModelName::parse("offline:script=reader").unwrap(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let messages: Vec<String> =
            body["messages"].as_array().unwrap().iter().map(Value::to_string).collect();
        // What was said by others: an id in its own calls is no knowledge about the record.
        let texts =
            body["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "assistant");
        let texts: Vec<String> =
            texts.filter_map(|message| message["content"].as_str().map(String::from)).collect();
        self.requests.lock().unwrap().push(messages);
        let script = Script::parse(&self.answer(&texts)).unwrap_or_else(|problems| panic!("{problems:?}"));
        let scripted = Scripted::new(self.describe().model, Arc::new(script));
        Box::pin(async move { scripted.call(request).await })
    }
}

/// What an agent did at the end, and what it was sent at every call.
struct Outcome {
    acted: Vec<Value>,
    requests: Vec<Vec<String>>,
    record: Record,
}

async fn work(task: Task, manager: &str) -> Outcome {
    let model = Arc::new(Reader { task, calls: AtomicUsize::new(0), requests: Mutex::default() });
    let mut runner = Runner::new(Arc::clone(&model) as Arc<dyn Provider>);
    runner.manager = parse(manager).unwrap();
    runner.max_rounds = STEPS as u32 + 5;
    let look = tool(task.look.0, "", json!({}), move |at: Value| async move {
        let id = at[task.look.1].as_str().unwrap_or_default().to_string();
        let record = (0..STEPS).find(|n| (task.id)(*n) == id);
        record.map(|n| json!(task.result(n))).ok_or_else(|| "no such record".to_string())
    });
    runner.tools.add(Arc::new(look)).unwrap();
    let acted: Arc<Mutex<Vec<Value>>> = Arc::default();
    let keep = Arc::clone(&acted);
    let act = tool(task.act, "", json!({}), move |with: Value| {
        keep.lock().unwrap().push(with);
        async { Ok(json!("done")) }
    });
    runner.tools.add(Arc::new(act)).unwrap();
    let mut journal = Journal::memory(Record::new());
    let prompt = Prompt {
        name: "test".into(),
        system: Some(task.system.into()),
        user: task.user.into(),
        response_format: None,
    };
    let done = runner.run(&mut journal, &prompt).await;
    assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{manager}: {:?}", done.ended);
    let (acted, requests) = (acted.lock().unwrap().clone(), model.requests.lock().unwrap().clone());
    Outcome { acted, requests, record: Record::restore(journal.record().slots().to_vec()).unwrap() }
}

#[tokio::test]
async fn values_of_early_results_are_found_late_under_auto_and_not_under_a_token_budget() {
    for task in TASKS {
        let wanted: Vec<Value> = task.on.iter().map(|n| task.wanted(*n)).collect();
        let everything = work(task, "passthrough").await;
        assert_eq!(everything.acted, wanted, "{}: the agent can do it when it sees everything", task.act);
        let auto = work(task, "auto(8k)").await;
        assert_eq!(auto.acted, wanted, "{} under auto(8k)", task.act);
        let newest = work(task, "token_budget(8k)").await;
        assert_ne!(newest.acted, wanted, "{} under token_budget(8k)", task.act);
    }
}

#[tokio::test]
async fn a_runner_records_its_plans_and_sends_a_grown_prefix_between_them() {
    let outcome = work(TASKS[0], "auto(4k)").await;
    let plans: Vec<usize> = outcome
        .record
        .slots()
        .iter()
        .enumerate()
        .filter(|(_, slot)| matches!(slot, Slot::Decision(decision, _) if matches!(**decision, Decision::Plan { .. })))
        .map(|(position, _)| position)
        .collect();
    let broken = outcome
        .requests
        .iter()
        .zip(outcome.requests.iter().skip(1))
        .filter(|(one, next)| !next.starts_with(one));
    assert!(plans.len() >= 2, "{plans:?}");
    assert_eq!(
        broken.count(),
        plans.len(),
        "each request begins with the one before, but where a plan was recorded"
    );
}
