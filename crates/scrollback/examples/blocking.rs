//! The same conversation in a program without an async runtime.

use scrollback::{Entry, Wire, blocking::Store};

fn main() -> scrollback::Result<()> {
    let store = Store::open("sqlite:chat.db")?;
    let mut chat = store.conversation("anna")?;
    chat.append(Entry::user("What is 6 x 7?"))?;
    println!("{}", chat.view("sliding_window(20)")?.request(Wire::OpenaiChat));
    chat.append(Entry::assistant("42"))
}
