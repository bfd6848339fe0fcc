//! Searching.

use crate::store::RecordsExt;
use scrollback_core::{Entry, Role, Time};

use super::{Bench, CaseResult, NOON, assistant, ensure, same, suite, user};
use crate::conversation::Status;
use crate::entry::{Expected, NewEntry};
use crate::error::StoreError;
use crate::id::Recipient;
use crate::search::{Filter, Hit, Query};

suite![
    words_phrases_beginnings_and_exclusions,
    every_script_is_found,
    nothing_in_a_query_is_an_operator_or_an_error,
    filters_narrow_and_pages_follow,
    results_of_a_tool_are_found_by_its_name,
];

async fn find(bench: &Bench, query: &str, filter: Filter) -> Result<Vec<Hit>, StoreError> {
    Ok(bench.store().search(&bench.tenant, Query::parse(query), filter, 100, None).await?.hits)
}

async fn count(bench: &Bench, query: &str) -> Result<usize, StoreError> {
    find(bench, query, Filter::default()).await.map(|hits| hits.len())
}

async fn words_phrases_beginnings_and_exclusions(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let system = Entry::text(Role::System, "You sell red pencils.");
    bench
        .tell(
            &anna,
            vec![system, user("A Red pencil, please"), assistant("Red or blue? The pencils are new.")],
        )
        .await?;
    bench.tell(&anna, vec![user("Blue is fine. Café Zürich at noon")]).await?;
    for (query, hits) in [
        ("red", 2),
        ("RED pencil", 1),
        ("pencil*", 2),
        ("\"red pencil\"", 1),
        ("\"pencil red\"", 0),
        ("red -blue", 1),
        ("cafe zurich", 1),
        ("noon*", 1),
        ("-red", 0),
        ("unheard", 0),
        ("red \"pencils are\"", 1),
    ] {
        same!((query, count(&bench, query).await?), (query, hits));
    }
    let hits = find(&bench, "pencil", Filter::default()).await?;
    let Some(hit) = hits.first() else { return Err("nothing was found".into()) };
    same!((hit.position, hit.role, hit.turn), (1, Role::User, 1));
    same!(hit.snippet.as_str(), "A Red «pencil», please");
    same!(hit.recipient.as_ref().map(Recipient::as_str), Some("anna"));
    Ok(())
}

async fn every_script_is_found(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let texts = [
        "Привет, мир",
        "私は東京にいる",
        "שלום עולם",
        "नमस्ते दुनिया",
        "Πού είναι;",
        "so happy 🙂🎉",
        "İstanbul",
        "ﬁne",
    ];
    bench.say(&id, texts.iter().map(|text| user(text)).collect()).await?;
    for (query, position) in [
        ("мир", 0),
        ("东京 OR 東京", 99),
        ("東京", 1),
        ("שלום", 2),
        ("नमस्ते", 3),
        ("ειναι", 4),
        ("🎉", 5),
        ("istanbul", 6),
        ("fine", 7),
    ] {
        let found: Vec<u64> =
            find(&bench, query, Filter::default()).await?.into_iter().map(|hit| hit.position).collect();
        let wanted: Vec<u64> = if position == 99 { Vec::new() } else { vec![position] };
        same!((query, found), (query, wanted));
    }
    Ok(())
}

async fn nothing_in_a_query_is_an_operator_or_an_error(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("select near or and not"), user("it's 100% sure; drop table entries")]).await?;
    for query in [
        "",
        "\"",
        "*",
        "-",
        "'",
        ")",
        "(",
        "a AND (",
        "words:x",
        "x:*",
        "^",
        "NEAR(",
        "\\",
        "%",
        "; drop table entries",
        "' or 1=1 --",
        "\u{0}",
        "&|!<->",
        ":*",
        "{}",
        "\"unclosed phrase",
        "- \"\" *",
    ] {
        find(&bench, query, Filter::default()).await?;
    }
    same!(count(&bench, "OR NEAR").await?, 1);
    same!(count(&bench, "100%").await?, 1);
    same!(count(&bench, "'drop'").await?, 1);
    Ok(())
}

async fn filters_narrow_and_pages_follow(bench: Bench) -> CaseResult {
    for number in 0..9_i64 {
        let recipient = Recipient::parse(if number % 3 == 0 { "anna" } else { "ben" })?;
        let at = Time(NOON.0 + number * 60_000);
        let said = NewEntry::evaluation([user("apple"), assistant("apple pie with a lot of apple")], at);
        bench.store().append_for(&bench.tenant, at, &recipient, Expected::Any, said).await?;
    }
    let anna = Filter { recipient: Some(Recipient::parse("anna")?), ..Filter::default() };
    same!(find(&bench, "apple", anna).await?.len(), 6);
    let spoken = Filter { role: Some(Role::Assistant), ..Filter::default() };
    same!(find(&bench, "apple", spoken).await?.len(), 9);
    let span = Filter {
        since: Some(Time(NOON.0 + 60_000)),
        until: Some(Time(NOON.0 + 180_000)),
        ..Filter::default()
    };
    same!(find(&bench, "apple", span).await?.len(), 4);
    let active = |status| Filter { status: Some(status), ..Filter::default() };
    same!(find(&bench, "apple", active(Status::Active)).await?.len(), 18);
    same!(find(&bench, "apple", active(Status::Idle)).await?.len(), 0);

    let whole = find(&bench, "apple", Filter::default()).await?;
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let query = Query::parse("apple");
        let page = bench.store().search(&bench.tenant, query, Filter::default(), 4, after).await?;
        ensure!(page.hits.len() <= 4, "a page is too long");
        paged.extend(page.hits);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    same!(&paged, &whole);
    let times: Vec<Time> = whole.iter().take(9).map(|hit| hit.created_at).collect();
    ensure!(times.is_sorted_by(|a, b| a >= b), "of equal rank the newest come first: {times:?}");
    let other = crate::Tenant::parse("somebody else")?;
    let hits = bench.store().search(&other, Query::parse("apple"), Filter::default(), 9, None).await?;
    same!(hits.hits.len(), 0);
    Ok(())
}

async fn results_of_a_tool_are_found_by_its_name(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let calling = Entry::calling(None, &[("a", "weather", "{}"), ("b", "news", "{}")]);
    bench
        .say(&id, vec![user("rain?"), calling, Entry::result("a", "rain"), Entry::result("b", "rain")])
        .await?;
    let of = |tool: &str| Filter { tool: Some(tool.into()), ..Filter::default() };
    let positions = |hits: Vec<Hit>| -> Vec<u64> { hits.into_iter().map(|hit| hit.position).collect() };
    same!(positions(find(&bench, "rain", of("weather")).await?), [2]);
    same!(positions(find(&bench, "rain", of("news")).await?), [3]);
    same!(find(&bench, "rain", Filter::default()).await?.len(), 3);
    Ok(())
}
